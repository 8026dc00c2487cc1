"""An array whose tasks want an environment: it costs what one job costs, and a stop of the array ends its build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.spec.array import ArrayCounts, task_id
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.policy.lifecycle.environment import is_building
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

BUILD = 3.0
"""Seconds that the fake builder takes."""
LONGER = BUILD + 1.5
FEW, MANY = 10, 300
LINES = ("numpy", "pandas", "torch")


def tasks(sim: Simulation, array: str, size: int) -> list[Job]:
    return [sim.job(task_id(array, index)) for index in range(size)]


def message(sim: Simulation, array: str, index: int) -> str:
    return sim.controller.live_state.summary(sim.job(task_id(array, index))).message


def writes(size: int, *, fails: bool = False) -> int:
    """Count the transactions from the submission of an array until what follows from its environment is done."""
    with Simulation() as sim:
        if fails:
            sim.world.builder.broken_requirements.add("numpy")
        array = sim.submit_array(size, requirements=LINES)
        sim.pass_time(LONGER)
        states = [job.status() if fails else job.state for job in tasks(sim, array, size)]
        assert states.count(Status.FAILED if fails else SecondaryStatus.TRAINING) == (size if fails else 2)
        assert sum(sim.world.builder.start_counts.values()) == 1
        return sim.controller.store.writes


@pytest.mark.parametrize("fails", [False, True])
def test_an_environment_is_as_many_writes_for_many_tasks_as_for_few(fails: bool) -> None:
    assert writes(MANY, fails=fails) == writes(FEW, fails=fails)


def test_how_far_a_build_is_is_told_of_one_task_of_each_array_and_of_every_job_that_is_none(sim: Simulation) -> None:
    sim.world.builder.seconds = 30.0
    arrays = [sim.submit_array(MANY, requirements=LINES) for _ in range(2)]
    alone = [sim.submit(requirements=LINES) for _ in range(2)]
    before = sim.controller.store.last_seq()
    sim.pass_time(15.0)
    assert sim.controller.store.last_seq() - before == 2 * 4, "two steps, four who tell them"
    step = "Building the environment: Collecting pandas."
    assert [message(sim, array, 0) for array in arrays] == [step] * 2
    assert [sim.controller.live_state.summary(sim.job(job)).message for job in alone] == [step] * 2
    assert message(sim, arrays[0], 1) == "Building the environment."
    sim.stop(task_id(arrays[0], 0))
    sim.pass_time(1.0)
    assert message(sim, arrays[0], 1) == step


def test_whoever_hears_of_a_task_that_waits_for_its_environment_hears_of_no_place_in_the_line(sim: Simulation) -> None:
    sim.submit_array(FEW, requirements=LINES)
    events, _, _ = sim.controller.store.events_since(0)
    heard = {event.job.id: event.job for event in events if event.job is not None}
    assert {(job.message, job.queue_position) for job in heard.values()} == {("Building the environment.", None)}


def test_the_environments_that_nobody_needs_are_looked_for_once_and_not_for_each_task(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    preparation, looked = sim.controller.reconciler.preparation, []
    needed = preparation._keys_in_use
    monkeypatch.setattr(preparation, "_keys_in_use", lambda: looked.append(1) or needed())
    sim.submit_array(FEW, requirements=LINES)
    sim.pass_time(LONGER)
    assert looked == [1]


def test_a_stop_of_an_array_ends_its_build_unless_somebody_else_wants_it(sim: Simulation) -> None:
    first, second = (sim.submit_array(FEW, requirements=LINES) for _ in range(2))
    sim.pass_time(1.0)
    sim.stop_array(first)
    assert len(sim.world.builder.running_builds) == 1
    sim.stop_array(second)
    assert sim.world.builder.running_builds == []
    desk = sim.controller.facade.arrays
    assert desk.summary(desk.find(first)).counts == ArrayCounts(stopped=FEW)
    again = sim.submit_array(FEW, requirements=LINES)
    sim.pass_time(LONGER)
    assert [job.state for job in tasks(sim, again, 2)] == [SecondaryStatus.TRAINING] * 2
    assert sim.world.builder.overlaps == []


def test_who_waits_for_another_job_does_not_begin_with_the_others(sim: Simulation) -> None:
    first = sim.submit()
    held = sim.submit_array(FEW, requirements=LINES, after=(first,))
    free = sim.submit_array(FEW, requirements=LINES)
    assert all(is_building(job.timings) for job in tasks(sim, free, FEW))
    assert not any(is_building(job.timings) for job in tasks(sim, held, FEW))
    sim.pass_time(1.0)
    sim.end_job(first, exit_code=1)
    sim.pass_time(LONGER)
    assert {job.status() for job in tasks(sim, held, FEW)} == {Status.FAILED}


def test_a_controller_that_is_killed_in_a_build_goes_on_with_all_tasks_in_one_write(sim: Simulation) -> None:
    array = sim.submit_array(MANY, requirements=LINES)
    sim.pass_time(1.5)
    sim.restart()
    sim.pass_time(BUILD + 2.0)
    assert [job.state for job in tasks(sim, array, 2)] == [SecondaryStatus.TRAINING] * 2
    assert not any(is_building(job.timings) for job in tasks(sim, array, MANY))
    assert sim.controller.store.writes < 30


def test_the_others_of_a_task_whose_environment_is_gone_wait_for_the_new_one_with_it(sim: Simulation) -> None:
    array = sim.submit_array(FEW, requirements=LINES, max_concurrent=1)
    sim.pass_time(LONGER)
    (folder,) = (sim.folder / "environments").iterdir()
    (folder / "venv" / "bin" / "python").unlink()
    sim.end_job(task_id(array, 0))
    sim.pass_time(1.1)
    assert [is_building(job.timings) for job in tasks(sim, array, FEW)] == [False] + [True] * (FEW - 1)
    sim.pass_time(LONGER)
    assert sim.job(task_id(array, 1)).state is SecondaryStatus.TRAINING
    assert sum(sim.world.builder.start_counts.values()) == 2

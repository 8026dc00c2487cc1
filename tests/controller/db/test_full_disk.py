"""The disk of the records is full for a while: nothing is half-created, what runs goes on, and later all is told."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.testing.fakes.fake_engine import RefusesTransiently
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
THE_JOBS = 2
"""The write of what follows for a job from the end of its hosts; the first one is that of their end."""


def refuse_one_write(sim: Simulation, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the ``count``-th write from now fail, and no other."""
    write, counted = sim.controller.store.write, itertools.count(1)

    def write_or_not(*what: Any, **more: Any) -> Any:
        if next(counted) == count:
            raise RecordsError("No space left.")
        return write(*what, **more)

    monkeypatch.setattr(sim.controller.store, "write", write_or_not)


def test_a_submission_is_refused_with_a_sentence_and_nothing_is_there_of_it(sim: Simulation) -> None:
    sim.fill_disk()
    job = sim.new_id()
    with pytest.raises(RecordsError, match=r"No space left.*free some space"):
        sim.submit(job_id=job)
    assert (sim.controller.live_state.jobs, sim.controller.live_state.clusters) == ({}, {})
    sim.free_disk()
    assert sim.controller.store.job(job) is None
    assert sim.world.hosts == {}
    sim.submit(job_id=job)
    sim.pass_time(1.0)
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_submission_onto_a_warm_pool_that_is_refused_leaves_the_pool_as_it_was(sim: Simulation) -> None:
    first = sim.run_to_end(keep_alive=600)
    (before,) = sim.pools()
    sim.fill_disk()
    with pytest.raises(RecordsError):
        sim.submit()
    assert sim.pools() == [before]
    sim.free_disk()
    second = sim.run_to_end(keep_alive=600)
    told = sim.job(first).warm_pool
    assert told is not None
    assert told.reused_by_job == sim.job(second).name


def test_a_job_that_ends_meanwhile_has_its_verdict_when_there_is_room(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(1.0)
    sim.fill_disk()
    sim.end_job(job)
    sim.pass_time(30.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.free_disk()
    sim.pass_time(3.0)
    ended = sim.job(job)
    assert (ended.state, sim.world.start_counts[job, "algo-1"]) == (SecondaryStatus.COMPLETED, 1)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1


def test_a_first_line_that_could_not_be_written_down_is_told_later(sim: Simulation) -> None:
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=5.0)
    sim.submit(job_id=job)
    sim.pass_time(2.0)
    sim.fill_disk()
    sim.pass_time(10.0)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.free_disk()
    sim.pass_time(2.0)
    told = sim.job(job)
    assert told.state is SecondaryStatus.TRAINING
    assert told.timings["first_line"] == pytest.approx(sim.world.clock() - 8.5, abs=1.0), "when it was, not when told"
    sim.end_job(job)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.6])
def test_hosts_that_come_up_meanwhile_are_found_again_and_launched_once(sim: Simulation, moment: float) -> None:
    job = sim.submit()
    sim.pass_time(moment)
    sim.fill_disk()
    sim.pass_time(20.0)
    sim.free_disk()
    sim.pass_time(40.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert set(sim.world.launches.values()) == {1}
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_stop_is_refused_and_can_be_said_again(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    sim.fill_disk()
    with pytest.raises(RecordsError):
        sim.stop(job)
    assert sim.job(job).goal is DesiredState.RUN
    sim.free_disk()
    sim.stop(job)
    sim.pass_time(1.0)
    assert sim.job(job).state is SecondaryStatus.STOPPED


def test_a_pool_ends_in_its_time_although_that_cannot_be_written_down(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=100)
    sim.fill_disk()
    sim.pass_time(130.0)
    assert sim.world.live_hosts() == [], "the hosts ended by their own clock"
    sim.free_disk()
    sim.pass_time(60.0)
    assert sim.pools() == []


def test_one_job_that_cannot_be_looked_at_keeps_no_other_from_its_turn(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = sim.submit(), sim.submit()
    sim.pass_time(1.0)
    reconcile = sim.controller.reconciler.reconcile
    seen: list[str] = []

    def stumble(job_id: str) -> None:
        if job_id == bad:
            raise RecordsError("Not now.")
        seen.append(job_id)
        reconcile(job_id)

    monkeypatch.setattr(sim.controller.reconciler, "reconcile", stumble)
    sim.pass_time(3.0)
    assert seen.count(good) >= 2
    monkeypatch.undo()
    for job in (bad, good):
        sim.end_job(job)


def begun(sim: Simulation, moment: float, *, starts_after: float) -> str:
    """Give a job at a moment before its code begins."""
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=starts_after)
    sim.submit(job_id=job)
    sim.pass_time(moment)
    return job


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize("moment", [START / 2, START], ids=["while they come up", "before the code begins"])
def test_hosts_that_die_are_replaced_whichever_write_fails(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, moment: float, count: int
) -> None:
    job = begun(sim, moment, starts_after=5.0)
    refuse_one_write(sim, monkeypatch, count)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(60.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert sim.world.start_counts == {(job, "algo-1"): 1}
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


@pytest.mark.parametrize("moment", [START / 2, START], ids=["while they come up", "before the code begins"])
def test_a_stop_ends_a_job_that_was_not_told_of_the_end_of_its_hosts(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, moment: float
) -> None:
    job = begun(sim, moment, starts_after=50.0)
    refuse_one_write(sim, monkeypatch, THE_JOBS)
    sim.kill_host(sim.hosts(job)[0])
    while sim.job(job).cluster in sim.controller.live_state.clusters:
        sim.pass_time(0.1)
    sim.stop(job)
    sim.pass_time(5.0)
    assert (sim.job(job).state, sim.world.start_counts) == (SecondaryStatus.STOPPED, {})


def test_hosts_that_never_came_up_count_as_hosts_without_code_also_where_none_leave_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Simulation(has_remains=False) as sim:
        sim.set_faults(RefusesTransiently(1))
        refuse_one_write(sim, monkeypatch, 1 + THE_JOBS)  # the launch is written down first
        job = sim.submit()
        sim.pass_time(10.0)
        assert (sim.job(job).state, sim.job(job).placements) == (SecondaryStatus.TRAINING, 2)
        sim.end_job(job)
        assert sim.job(job).state is SecondaryStatus.COMPLETED

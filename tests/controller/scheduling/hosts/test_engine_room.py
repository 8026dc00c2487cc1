"""Engines without room: the queue of each, its position and reason, pools that make room, and no job that fails."""

from __future__ import annotations

from typing import ClassVar

import pytest

from jupyter_smx.cli.wait_reason import wait_reason
from jupyter_smx.engines.base import Capabilities
from jupyter_smx.model.errors import ResourceLimitError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_engine import AnswerUnknown, FakeEngine, Full
from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6


class Elsewhere(FakeEngine):
    """Hosts that do not share the controller's machine."""

    capabilities: ClassVar[Capabilities] = Capabilities(shared_folder=True, environments=True, same_paths=True)


def positions(sim: Simulation, jobs: list[str]) -> list[int | None]:
    rows = {row.id: row.queue_position for row in sim.call(lambda: sim.controller.facade.jobs(100, "", None))}
    return [rows[job] for job in jobs]


def reason(sim: Simulation, job: str) -> str:
    why = sim.call(lambda: sim.controller.facade.job(job)).why
    assert why is not None
    return why.sentence


def test_jobs_beyond_the_slots_of_an_engine_wait_in_its_queue_with_their_position() -> None:
    with Simulation(engine=Elsewhere) as sim:
        sim.set_faults(Full(6, is_known=True))
        jobs = [sim.submit() for _ in range(12)]
        sim.pass_time(START)
        assert positions(sim, jobs) == [None] * 6 + [1, 2, 3, 4, 5, 6]
        assert len(sim.world.live_hosts()) == 6
        said = "Queued, position 1. It needs 1 host, and 6 of the 6 of the engine fake are in use."
        assert reason(sim, jobs[6]) == said
        sim.end_job(jobs[0])
        sim.pass_time(START)
        assert positions(sim, jobs)[1:] == [None] * 6 + [1, 2, 3, 4, 5]
        while any(job in sim.controller.live_state.jobs for job in jobs):
            sim.pass_time(START)
            for _, run in sim.world.running_jobs():
                sim.end_job(run.job)
        assert {sim.job(job).status() for job in jobs} == {Status.COMPLETED}
        assert sim.world.most_hosts == 6


def test_an_idle_pool_that_holds_a_slot_is_released_for_a_job_that_waits() -> None:
    with Simulation(engine=Elsewhere) as sim:
        sim.set_faults(Full(2, is_known=True))
        kept = [sim.run_to_end(keep_alive=600, role=role) for role in ("a", "b")]
        job = sim.submit(role="c")
        sim.pass_time(5)
        assert sim.job(job).state is SecondaryStatus.TRAINING
        ended = [sim.pool(sim.job(each).cluster) for each in kept]
        assert [pool.state for pool in ended] == [ClusterState.TERMINATED, ClusterState.AVAILABLE]
        assert ended[0].reason == f"Released early to make room for {sim.job(job).name}."


def test_a_job_of_more_hosts_than_its_engine_can_have_is_refused() -> None:
    with Simulation(engine=Elsewhere) as sim:
        sim.set_faults(Full(2, is_known=True))
        with pytest.raises(ResourceLimitError, match="The engine fake has at most 2 hosts at once"):
            sim.controller.facade.validator.check(sim.spec(hosts=3))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_whose_engine_has_no_room_waits_in_the_queue_with_the_reason_until_it_has(
    sim: Simulation, *, restarts: bool
) -> None:
    full = Full(0)
    sim.set_faults(full)
    job, behind = sim.submit(), sim.submit()
    for _ in range(10):
        sim.pass_time(60)
        if restarts:
            sim.restart()
    said = "Queued, position 1. The engine fake has no hosts now: All machines are busy; 0 were free."
    assert reason(sim, job) == said
    assert positions(sim, [job, behind]) == [1, 2]
    assert reason(sim, behind) == "Queued, position 2. 1 older job waits before it."
    assert wait_reason(sim.call(lambda: sim.controller.facade.job(job))) == said
    full.hosts = 3
    sim.pass_time(31)
    for each in (job, behind):
        sim.end_job(each)
        assert sim.job(each).status() is Status.COMPLETED
    assert len(sim.world.launches) == 2


def test_a_job_that_waits_for_room_is_stopped(sim: Simulation) -> None:
    sim.set_faults(Full(0))
    job = sim.submit()
    sim.pass_time(60)
    sim.stop(job)
    sim.pass_time(START)
    assert sim.job(job).status() is Status.STOPPED
    assert sim.pools() == []


def test_a_pool_that_becomes_idle_is_taken_although_the_engine_has_no_room(sim: Simulation) -> None:
    first = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.set_faults(Full(1))
    job = sim.submit(keep_alive=600)
    sim.pass_time(300)
    sim.end_job(first)
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert sim.job(job).cluster == sim.job(first).cluster


def test_no_room_after_an_answer_that_was_lost_is_no_failed_launch_either(sim: Simulation) -> None:
    sim.set_faults(AnswerUnknown(1, seconds=None), Full(0))
    job = sim.submit()
    sim.pass_time(300)
    assert reason(sim, job).startswith("Queued, position 1. The engine fake has no hosts now")
    sim.set_faults()
    sim.pass_time(31)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED

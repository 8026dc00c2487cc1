"""Hosts that wait at the scheduler of their engine: what is told, how long, across controllers, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.text.formats import format_start_reason
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import ClusterState, Handle, QueueStatus
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_engine import AnswerUnknown, FakeEngine, Fault, Outage, WaitsAtEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from jupyter_smx.engines.base import ClusterRequest

LONG = 5 * LIMITS.launch_limit
START = 3.0


def message(sim: Simulation, job: str) -> str:
    return sim.call(lambda: sim.controller.facade.summary(sim.job(job))).message


def test_hosts_that_wait_at_their_engine_longer_than_a_launch_may_take_come_up_and_the_job_says_what_it_waited_for(
    sim: Simulation,
) -> None:
    queue = WaitsAtEngine()
    sim.set_faults(queue)
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.pass_time(LONG)
    said = "Waiting at the engine fake: Resources, position 3."
    assert message(sim, job) == said
    assert said in format_start_reason(sim.job(job))
    assert sim.job(job).state is SecondaryStatus.STARTING
    queue.status = QueueStatus("Priority", position=1)
    sim.pass_time(START)
    assert message(sim, job) == "Waiting at the engine fake: Priority, position 1."
    sim.set_faults()
    sim.pass_time(START)
    assert "It waited 2 min 34 s at the engine fake." in sim.start_reason(job).notes
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.job(job).cluster == cluster
    assert [*sim.world.submissions] == [cluster]
    assert sim.pool(cluster).waiting is None
    took = sim.pool(cluster).cold_start_seconds
    assert took is not None
    assert took < START


def test_a_request_that_waits_goes_on_under_the_next_controller(sim: Simulation) -> None:
    sim.set_faults(WaitsAtEngine())
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.pass_time(START)
    sim.restart()
    assert sim.pool(cluster).waiting == QueueStatus("Resources", position=3)
    sim.pass_time(LONG)
    assert message(sim, job) == "Waiting at the engine fake: Resources, position 3."
    sim.restart()
    sim.set_faults()
    sim.pass_time(START)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert [*sim.world.submissions] == [cluster]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_stop_gives_back_what_waits_at_the_engine(sim: Simulation, *, restarted: bool) -> None:
    sim.set_faults(WaitsAtEngine())
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.pass_time(START)
    if restarted:
        sim.restart()
    sim.stop(job)
    sim.pass_time(START)
    assert sim.job(job).status() is Status.STOPPED
    assert cluster in sim.world.released_clusters
    assert sim.pool(cluster).state is ClusterState.TERMINATED
    assert sim.world.live_hosts() == []


def test_the_end_of_the_wait_that_was_asked_for_gives_back_what_waits_at_the_engine(sim: Simulation) -> None:
    sim.set_faults(WaitsAtEngine())
    job = sim.submit(spot=True, max_run=60, max_wait=120)
    sim.pass_time(119)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.pass_time(5)
    assert sim.job(job).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED
    assert sim.pools() == []


def test_the_limit_of_a_launch_counts_from_the_end_of_the_wait(sim: Simulation) -> None:
    sim.engine.launch_seconds = LIMITS.launch_limit - 2
    sim.set_faults(WaitsAtEngine())
    job = sim.submit()
    sim.pass_time(LONG)
    sim.set_faults()
    sim.pass_time(sim.engine.launch_seconds + START)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


# A request whose answer is not known


@pytest.mark.parametrize("seconds", [None, 0.0, 0.1, 40.0])
def test_a_request_whose_answer_was_lost_is_looked_up_and_goes_on_under_the_same_id(
    sim: Simulation, seconds: float | None
) -> None:
    sim.set_faults(AnswerUnknown(5, seconds=seconds))
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.pass_time(60)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.job(job).cluster == cluster
    assert [*sim.world.launches] == [(cluster, "algo-1")]


def test_while_the_engine_answers_nothing_the_job_waits_and_says_why(sim: Simulation) -> None:
    sim.set_faults(Outage())
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.pass_time(3 * LIMITS.unreachable_limit)
    assert message(sim, job) == "Waiting at the engine fake: The engine cannot be reached."
    sim.restart()
    sim.pass_time(LONG)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.set_faults()
    sim.pass_time(31)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.job(job).cluster == cluster


class FailsAfterItsName(FakeEngine):
    """Gives its handle before the first host, releases what failed, and says why, as the local engine does."""

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        if request.cluster in self.world.released_clusters:
            raise RefusedError("The cluster was released.")
        self.world.submit(request.cluster)
        yield Handle(engine=self.name, cluster=request.cluster)
        self.world.release(request.cluster)
        raise UnavailableError("Host algo-1 did not start.", transient=True)


def test_hosts_that_do_not_start_fail_the_job_after_three_launches_with_the_words_of_the_engine() -> None:
    with Simulation(engine=FailsAfterItsName) as sim:
        job = sim.submit()
        sim.pass_time(30)
        assert sim.job(job).failure_reason == "CapacityError: Host algo-1 did not start."
        assert len(sim.world.submissions) == 3


def test_a_launch_that_comes_after_its_job_was_stopped_is_ended(sim: Simulation) -> None:
    sim.set_faults(AnswerUnknown(seconds=5.0))
    job = sim.submit()
    cluster = sim.job(job).cluster
    sim.set_faults(Outage())
    sim.pass_time(2)
    sim.stop(job)
    sim.pass_time(2)
    assert sim.job(job).status() is Status.STOPPED
    assert sim.pool(cluster).state is ClusterState.RELEASING
    sim.pass_time(10)
    assert [host.cluster for host in sim.world.live_hosts()] == [cluster]
    sim.set_faults()
    sim.pass_time(31)
    assert sim.world.live_hosts() == []
    assert sim.pools() == []


def pass_time(sim: Simulation, seconds: float) -> None:
    """Let time pass, and another controller begin within seconds of the death of one."""
    for _ in range(round(seconds / START)):
        sim.pass_time(START)
        if sim.controller.is_dead:
            sim.restart()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("fault", [WaitsAtEngine, lambda: AnswerUnknown(3, seconds=40.0), Outage])
def test_a_controller_that_is_killed_at_any_write_while_hosts_wait_launches_once(
    count: int, fault: Callable[[], Fault], *, before: bool
) -> None:
    with Simulation() as sim:
        sim.set_faults(fault())
        sim.kill_controller_at_write(count, before=before)
        job = sim.submit()
        pass_time(sim, START)
        if sim.controller.store.job(job) is None:
            return
        pass_time(sim, 30)
        sim.set_faults()
        pass_time(sim, 45)
        sim.end_job(job)
        pass_time(sim, START)
        assert sim.job(job).status() is Status.COMPLETED
        assert len(sim.world.launches) == 1
        assert not sim.bugs

"""A machine that is off: its job gets a verdict, nothing begins again, and the first contact ends what runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_engine import FakeUnsharedEngine, Outage, PausedHosts
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1.0
MAX_RUN = 1_000
PATIENCE = 60.0
"""Seconds between two tries of the controller, and more."""


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(engine=FakeUnsharedEngine) as simulation:
        simulation.engine.reads_spool = True
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def off(sim: Simulation, **fields: Any) -> str:
    """Run a job, and let its machine be off; the code runs on there, as after a power cut of the network."""
    job = sim.submit(max_run=MAX_RUN, **fields)
    sim.pass_time(START)
    sim.set_faults(PausedHosts(), Outage())
    sim.break_streams(sim.hosts(job)[0])
    return job


def state_of(sim: Simulation, job: str) -> tuple[SecondaryStatus, list[ClusterState]]:
    return sim.job(job).state, [pool.state for pool in sim.pools()]


def test_the_verdict_comes_when_the_maximum_run_time_and_the_grace_are_over(sim: Simulation) -> None:
    job = off(sim)
    sim.pass_time(MAX_RUN + LIMITS.grace - PATIENCE)
    assert sim.job(job).status() is Status.IN_PROGRESS
    sim.pass_time(2 * PATIENCE)
    assert state_of(sim, job) == (SecondaryStatus.FAILED, [ClusterState.RELEASING])
    assert sim.job(job).failure_reason == (
        "InternalServerError: Host algo-1 was lost while the job ran: it could not be reached until the maximum run "
        "time was over. If the job's code still runs there, it ends when the host is reached again."
    )


def test_a_machine_that_comes_back_in_time_goes_on(sim: Simulation) -> None:
    job = off(sim)
    sim.pass_time(MAX_RUN - PATIENCE)
    sim.set_faults()
    sim.pass_time(PATIENCE / 2)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


def test_abandoned_hosts_hold_up_no_verdict(sim: Simulation) -> None:
    job = off(sim)
    sim.pass_time(PATIENCE)
    sim.stop(job, abandon=True)
    assert state_of(sim, job) == (SecondaryStatus.STOPPED, [ClusterState.RELEASING])
    assert sim.job(job).transitions[-1].status_message == (
        "The job is stopped. Its hosts cannot be reached; its code, if it still runs, ends when they are reached."
    )


def test_a_stop_that_waits_for_the_grace_period_can_be_abandoned(sim: Simulation) -> None:
    job = off(sim)
    sim.pass_time(PATIENCE)
    sim.stop(job)
    assert sim.job(job).status() is Status.STOPPING
    sim.stop(job, abandon=True)
    assert sim.job(job).status() is Status.STOPPED


def test_what_still_runs_on_abandoned_hosts_ends_at_the_first_contact(sim: Simulation) -> None:
    job = off(sim)
    sim.stop(job, abandon=True)
    assert [run.job for _, run in sim.world.running_jobs()] == [job]
    sim.restart()
    sim.set_faults()
    sim.pass_time(PATIENCE)
    assert (sim.world.running_jobs(), sim.world.live_hosts(), sim.pools()) == ([], [], [])
    assert sim.job(job).status() is Status.STOPPED


@pytest.mark.parametrize("abandoned", [False, True])
def test_no_other_attempt_begins_while_code_may_run(sim: Simulation, abandoned: bool) -> None:
    job = off(sim, retries=3)
    if abandoned:
        sim.stop(job, abandon=True)
    sim.pass_time(3 * MAX_RUN)
    assert sim.job(job).status() is (Status.STOPPED if abandoned else Status.FAILED)
    assert sum(sim.world.start_counts.values()) == 1
    assert sim.job(job).attempt == 1


def test_a_reachable_job_that_is_abandoned_is_stopped_as_any_other(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.stop(job, abandon=True)
    sim.pass_time(START)
    assert state_of(sim, job) == (SecondaryStatus.STOPPED, [])
    assert "cannot be reached" not in sim.job(job).transitions[-1].status_message


@pytest.mark.parametrize("write", range(1, 5))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_goes_on_with_it(sim: Simulation, write: int, before: bool) -> None:
    job = off(sim)
    sim.kill_controller_at_write(write, before=before)
    sim.stop(job, abandon=True)
    sim.pass_time(START)
    sim.restart()
    sim.pass_time(PATIENCE)
    asked = sim.job(job).abandoned
    assert asked or (write, before) == (1, True), "only what was not written down is lost"
    assert (sim.job(job).status() is Status.STOPPED) == asked
    assert sum(sim.world.start_counts.values()) == 1

"""The clock of a remote machine is wrong: moments, keep-alive, cost and order are those of the controller's clock."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.status import Status
from jupyter_smx.policy.accounting import price
from jupyter_smx.testing.fakes.fake_engine import FakeUnsharedEngine
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.model.records.job import Job

HOUR = 3_600.0
RUN = 10.0
"""Seconds for which the code of a job runs."""
wrong_clocks = pytest.mark.parametrize(
    "ahead", [-HOUR, HOUR, -20.0, 20.0], ids=["hour behind", "hour ahead", "20 s behind", "20 s ahead"]
)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(engine=FakeUnsharedEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def run_for(sim: Simulation, seconds: float = RUN, **fields: int) -> Job:
    """Run a job whose code takes so many seconds."""
    job = sim.submit(**fields)
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    sim.pass_time(seconds)
    sim.end_job(job)
    return sim.job(job)


def assert_moments_are_true(sim: Simulation, job: Job) -> None:
    """Compare the moments of a job with the clock of the controller, by which it ended just now."""
    now, at = sim.world.clock(), job.timings
    order = [at[name] for name in ("sent", "received", "awake", "first_line", "exited", "ended", "final")]
    assert all(later - earlier >= -0.001 for earlier, later in pairwise(order)), at
    assert at["ended"] == pytest.approx(now, abs=1.0)
    assert at["exited"] - at["first_line"] == pytest.approx(RUN, abs=1.0)
    assert at["first_line"] - job.created_at == pytest.approx(sim.engine.launch_seconds, abs=1.0)
    assert job.started_at == pytest.approx(at["received"], abs=1.0)
    assert [end.exited_at for end in job.hosts] == [pytest.approx(now, abs=1.0)]
    rows = job.transitions
    assert all(later.start_time >= earlier.start_time for earlier, later in pairwise(rows)), rows


@wrong_clocks
def test_the_moments_of_a_job_are_those_of_the_controllers_clock(sim: Simulation, ahead: float) -> None:
    sim.world.clock_ahead = ahead
    job = run_for(sim, keep_alive=300)
    assert job.status() is Status.COMPLETED
    assert_moments_are_true(sim, job)
    summary = sim.controller.live_state.summary(job)
    assert summary.first_line_seconds == pytest.approx(sim.engine.launch_seconds, abs=1.0)


@wrong_clocks
def test_a_warm_pool_lives_for_its_keep_alive(sim: Simulation, ahead: float) -> None:
    sim.world.clock_ahead = ahead
    first = run_for(sim, keep_alive=300)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    assert pool.expires_at == pytest.approx(sim.world.clock() + 300, abs=1.0)
    sim.pass_time(100.0)
    second = run_for(sim, keep_alive=300)
    assert sim.start_reason(second.id).start == "warm"
    told = sim.job(first.id).warm_pool
    assert told is not None
    assert told.status is WarmPoolStatus.REUSED
    assert told.resource_retained_billable_seconds == pytest.approx(100, abs=1)
    sim.pass_time(298.0)
    assert len(sim.world.live_hosts()) == 1
    sim.pass_time(4.0)
    assert sim.pools() == []


@wrong_clocks
def test_a_job_costs_what_it_ran(sim: Simulation, ahead: float) -> None:
    sim.world.clock_ahead = ahead
    job = run_for(sim)
    assert price.billable_seconds(job, sim.world.clock()) == pytest.approx(RUN, abs=1.0)


@wrong_clocks
def test_a_record_that_is_read_after_its_host_is_gone_has_true_moments(ahead: float) -> None:
    with Simulation() as sim:
        sim.world.clock_ahead = ahead
        job = sim.submit()
        sim.pass_time(sim.engine.launch_seconds + 0.1)
        sim.pass_time(RUN)
        (host,) = sim.hosts(job)
        sim.kill_controller()
        sim.end_job(job)
        ended = sim.world.clock()
        sim.kill_host(host)
        sim.pass_time(60.0)
        sim.restart()
        sim.pass_time(10.0)
        found = sim.job(job)
        assert found.timings["ended"] == pytest.approx(ended, abs=1.0)
        assert [end.exited_at for end in found.hosts] == [pytest.approx(ended, abs=1.0)]
        assert not sim.bugs


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_a_clock_that_is_set_while_a_job_runs_moves_nothing(sim: Simulation, ahead: float) -> None:
    """As that of a machine that has just started, which the network sets in its first minutes."""
    sim.world.clock_ahead = 20.0
    job = sim.submit(keep_alive=300)
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    sim.pass_time(RUN / 2)
    sim.world.clock_ahead = ahead
    sim.pass_time(RUN / 2)
    sim.end_job(job)
    assert_moments_are_true(sim, sim.job(job))


def test_the_next_job_is_told_of_a_clock_that_was_set_since_the_last(sim: Simulation) -> None:
    run_for(sim, keep_alive=300)
    sim.world.clock_ahead = -HOUR
    sim.pass_time(6.0)  # a ping later
    job = sim.submit(keep_alive=300)
    sim.pass_time(RUN)
    sim.end_job(job)
    assert sim.start_reason(job).start == "warm"
    assert sim.job(job).timings["exited"] == pytest.approx(sim.world.clock(), abs=1.0)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    assert pool.expires_at == pytest.approx(sim.world.clock() + 300, abs=1.0)


def test_a_host_whose_clock_is_right_is_told_nothing(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    (host,) = sim.hosts(job)
    assert "clock_ahead" not in host.requests[-1]


def test_a_pool_whose_agent_says_nothing_of_its_clock_is_not_idle_before_its_job_was_sent(sim: Simulation) -> None:
    """As an agent that an earlier version started; its clock is an hour behind."""
    job = sim.submit(keep_alive=300)
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    (host,) = sim.hosts(job)
    (run,) = host.runs.values()
    sim.pass_time(RUN)
    run.at = {name: None if moment is None else moment - HOUR for name, moment in run.at.items()}
    run.at["exited"] = sim.world.clock() - HOUR
    run.clock.now = lambda: sim.world.clock() - HOUR  # type: ignore[method-assign]
    sim.end_job(job)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    assert pool.expires_at == pytest.approx(sim.world.clock() + 300, abs=RUN + 1.0)

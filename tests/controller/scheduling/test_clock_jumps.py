"""The clock is set while a job waits, while it runs, or while its pool is idle: everything still ends in time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.lifecycle.attempts import remaining_seconds
from jupyter_smx.testing.fakes import fake_engine

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.simulation.simulation import Simulation

HOUR, DAY = 3_600.0, 86_400.0
jumps = pytest.mark.parametrize("jump", [DAY, -HOUR, HOUR, -DAY], ids=["day on", "hour back", "hour on", "day back"])


def has_no_negative_time(job: Job) -> bool:
    """Return True if no duration in the record of a finished job is negative."""
    rows = job.transitions
    assert all(row.end_time is not None and row.end_time >= row.start_time for row in rows), rows
    assert all(later.start_time >= earlier.start_time for earlier, later in pairwise(rows)), rows
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.ended_at >= job.started_at
    return True


@jumps
def test_an_idle_pool_lives_as_long_as_was_promised(sim: Simulation, jump: float) -> None:
    first = sim.run_to_end(keep_alive=300)
    (pool,) = sim.pools()
    sim.pass_time(100.0)
    sim.set_clock(jump)
    (moved,) = sim.pools(ClusterState.AVAILABLE)
    assert moved.expires_at == pytest.approx((pool.expires_at or 0.0) + jump)
    assert (moved.expires_at or 0.0) - sim.world.clock() == pytest.approx(199.0, abs=2.0), "what the countdown shows"
    sim.pass_time(190.0)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1
    assert len(sim.world.live_hosts()) == 1
    sim.pass_time(20.0)
    assert sim.pools() == []
    told = sim.job(first).warm_pool
    assert told is not None
    assert told.status is WarmPoolStatus.TERMINATED
    assert told.resource_retained_billable_seconds == pytest.approx(300, abs=3)


@jumps
def test_a_job_that_comes_before_anybody_looked_at_the_clock_is_warm(sim: Simulation, jump: float) -> None:
    sim.run_to_end(keep_alive=300)
    sim.world.set_clock(jump)
    second = sim.submit()
    why = sim.start_reason(second)
    assert why.start == "warm", why.sentence


@jumps
def test_a_job_that_runs_ends_in_its_own_time_and_is_billed_for_no_negative_one(sim: Simulation, jump: float) -> None:
    job = sim.submit(keep_alive=60, max_run=500)
    sim.pass_time(10.0)
    sim.set_clock(jump)
    sim.pass_time(480.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.pass_time(20.0)
    ended = sim.job(job)
    assert ended.state is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert has_no_negative_time(ended)
    billed = price.billable_seconds(ended, sim.world.clock())
    assert billed == pytest.approx(500.0, abs=3.0), "how long it ran, whatever the clock showed"
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    assert 40 < (pool.expires_at or 0.0) - sim.world.clock() <= 60


@jumps
def test_a_job_that_begins_again_is_billed_for_no_negative_time_of_either_attempt(sim: Simulation, jump: float) -> None:
    job = sim.submit(retries=1, max_run=2 * int(DAY))
    sim.pass_time(100.0)
    sim.set_clock(jump)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(50.0)
    again = sim.job(job)
    assert again.state is SecondaryStatus.TRAINING
    (over,) = again.attempts
    assert over.started_at is not None
    assert over.ended_at >= over.started_at
    assert over.seconds() == pytest.approx(100.0, abs=3.0)
    assert remaining_seconds(again) == pytest.approx(2 * DAY - 100, abs=3)
    sim.end_job(job)
    ended = sim.job(job)
    assert has_no_negative_time(ended)
    assert price.billable_seconds(ended, sim.world.clock()) == pytest.approx(150.0, abs=6.0)


@jumps
@pytest.mark.parametrize("seen", [True, False], ids=["a tick later", "at once"])
def test_a_jump_uses_up_none_of_the_time_that_all_attempts_have(sim: Simulation, jump: float, *, seen: bool) -> None:
    job = sim.submit(retries=2, max_run=500)
    for _ in range(2):
        sim.pass_time(100.0)
        (sim.set_clock if seen else sim.world.set_clock)(jump)
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(5.0)
        assert sim.job(job).state in (SecondaryStatus.STARTING, SecondaryStatus.TRAINING)
    sim.pass_time(20.0)
    again = sim.job(job)
    assert (again.attempt, again.state) == (3, SecondaryStatus.TRAINING)
    assert remaining_seconds(again) == pytest.approx(300, abs=12)
    sim.pass_time(330.0)
    assert sim.job(job).state is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert price.billable_seconds(sim.job(job), sim.world.clock()) == pytest.approx(500.0, abs=8.0)


@jumps
def test_a_jump_before_an_attempt_began_is_no_part_of_it(sim: Simulation, jump: float) -> None:
    job = sim.submit(retries=1, max_run=500)
    sim.set_clock(jump)
    sim.pass_time(50.0)
    began = sim.job(job)
    assert began.state is SecondaryStatus.TRAINING
    assert price.billable_seconds(began, sim.world.clock()) == pytest.approx(50.0, abs=3.0)
    sim.restart()
    sim.set_clock(jump)
    sim.restart()
    sim.pass_time(50.0)
    assert price.billable_seconds(sim.job(job), sim.world.clock()) == pytest.approx(100.0, abs=8.0)


@jumps
def test_a_job_that_waits_is_placed_when_there_is_room(sim: Simulation, jump: float) -> None:
    running = [sim.submit() for _ in range(2)]
    waits = sim.submit()
    sim.pass_time(5.0)
    sim.set_clock(jump)
    assert sim.controller.live_state.summary(sim.job(waits)).queue_position == 1
    sim.end_job(running[0])
    sim.pass_time(2.0)
    assert sim.job(waits).state is SecondaryStatus.TRAINING
    sim.end_job(waits)
    assert has_no_negative_time(sim.job(waits))


@jumps
def test_what_failed_is_tried_again_after_its_pause_and_not_after_the_jump(sim: Simulation, jump: float) -> None:
    sim.set_faults(fake_engine.RefusesTransiently(1))
    job = sim.submit()
    sim.set_clock(jump)
    sim.pass_time(4.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING


@jumps
def test_hosts_that_are_silent_have_all_of_their_time_to_answer(sim: Simulation, jump: float) -> None:
    job = sim.submit()
    sim.pass_time(2.0)
    sim.set_faults(fake_engine.Outage())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(10.0)
    sim.set_clock(jump)
    sim.pass_time(10.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.set_faults()
    sim.pass_time(60.0)
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED
    assert sim.world.start_counts[job, "algo-1"] == 1


@jumps
def test_who_waits_for_a_job_waits_as_long_as_he_said(sim: Simulation, jump: float) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    waiting = sim.loop.create_task(sim.controller.facade.wait_job(job, "final", 100.0))
    sim.pass_time(1.0)
    sim.set_clock(jump)
    sim.submit()  # each change wakes the waiting request
    sim.pass_time(90.0)
    assert not waiting.done()
    sim.pass_time(10.0)
    assert waiting.done()
    sim.end_job(job)


def test_a_clock_that_only_drifts_moves_nothing(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=300)
    writes = sim.controller.store.writes
    for _ in range(20):
        sim.set_clock(0.05)
    assert sim.controller.store.writes == writes

"""The clock is set while no controller runs: the next controller counts as if it had not been set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.lifecycle.attempts import remaining_seconds
from jupyter_smx.policy.scheduling import eta
from jupyter_smx.policy.scheduling.eta import CompletedRun

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.simulation.simulation import Simulation

DAY = 86_400.0
AWAY = 20.0
"""Seconds without a controller; two of them pass after the clock was set."""
jumps = pytest.mark.parametrize("jump", [2 * DAY, -2 * DAY], ids=["two days on", "two days back"])


def without_controller(sim: Simulation, jump: float) -> None:
    sim.kill_controller()
    sim.pass_time(AWAY - 2.0)
    sim.world.set_clock(jump)
    sim.pass_time(2.0)
    sim.restart()


@jumps
def test_an_idle_pool_is_kept_as_long_as_was_promised_and_no_longer(sim: Simulation, jump: float) -> None:
    first = sim.run_to_end(keep_alive=300)
    sim.pass_time(100.0)
    without_controller(sim, jump)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    left = (pool.expires_at or 0.0) - sim.world.clock()
    assert left == pytest.approx(300 - 100 - AWAY, abs=3.0)
    shown = sim.controller.live_state.pool_summary(pool)
    assert shown.idle_seconds == pytest.approx(100 + AWAY, abs=3.0)
    sim.pass_time(left - 10.0)
    assert len(sim.world.live_hosts()) == 1
    sim.pass_time(20.0)
    assert sim.world.live_hosts() == []
    told = sim.job(first).warm_pool
    assert told is not None
    assert told.status is WarmPoolStatus.TERMINATED
    assert told.resource_retained_billable_seconds == pytest.approx(300, abs=3)


@jumps
def test_the_next_job_finds_the_pool_warm(sim: Simulation, jump: float) -> None:
    sim.run_to_end(keep_alive=300)
    without_controller(sim, jump)
    why = sim.start_reason(sim.submit())
    assert why.start == "warm", why.sentence


@jumps
def test_a_job_that_ran_on_is_billed_for_what_it_ran_and_has_the_rest_of_its_time(sim: Simulation, jump: float) -> None:
    job = sim.submit(max_run=500, retries=1)
    sim.pass_time(100.0)
    without_controller(sim, jump)
    assert price.billable_seconds(sim.job(job), sim.world.clock()) == pytest.approx(100 + AWAY, abs=3.0)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(10.0)
    again = sim.job(job)
    assert (again.attempt, again.state) == (2, SecondaryStatus.TRAINING)
    assert remaining_seconds(again) == pytest.approx(500 - 100 - AWAY, abs=4)
    sim.end_job(job)
    assert price.billable_seconds(sim.job(job), sim.world.clock()) == pytest.approx(130.0, abs=5.0)


@jumps
def test_a_job_whose_host_dies_meanwhile_has_the_retry_that_its_time_allows(sim: Simulation, jump: float) -> None:
    job = sim.submit(max_run=int(DAY), retries=1)
    sim.pass_time(100.0)
    sim.kill_controller()
    sim.kill_host(sim.hosts(job)[0])
    sim.world.set_clock(jump)
    sim.restart()
    sim.pass_time(10.0)
    again = sim.job(job)
    assert (again.attempt, again.state) == (2, SecondaryStatus.TRAINING)
    assert remaining_seconds(again) == pytest.approx(DAY - 100, abs=3)


@jumps
def test_a_run_teaches_how_long_it_took_and_not_by_how_much_the_clock_was_set(sim: Simulation, jump: float) -> None:
    job = sim.submit()
    sim.pass_time(100.0)
    without_controller(sim, jump)
    sim.pass_time(2.0)
    sim.end_job(job)
    run = eta.run_of(sim.job(job))
    assert run is not None
    assert run.seconds == pytest.approx(100 + AWAY, abs=5.0)


@jumps
def test_a_job_is_expected_to_end_when_those_before_it_did(sim: Simulation, jump: float) -> None:
    job = sim.submit()
    sim.pass_time(100.0)

    def left() -> float:
        found: Job = sim.job(job)
        past = [CompletedRun(code="", wish=eta.parameters_hash(found.spec), instances="", seconds=600.0)]
        now = sim.world.clock()
        expected = eta.estimate_end(found, None, past, now)
        assert expected is not None
        return expected.seconds - max(0.0, now - found.created_at)

    assert left() == pytest.approx(500.0, abs=3.0)
    without_controller(sim, jump)
    assert left() == pytest.approx(500.0 - AWAY, abs=3.0)


@jumps
def test_who_came_first_is_first_whatever_the_clock_showed(sim: Simulation, jump: float) -> None:
    running = [sim.submit(max_run=5_000) for _ in range(2)]
    early = sim.submit()
    without_controller(sim, jump)
    late = sim.submit()
    sim.restart()
    place = {job: sim.controller.live_state.summary(sim.job(job)).queue_position for job in (early, late)}
    assert place == {early: 1, late: 2}
    sim.pass_time(2.0)
    sim.end_job(running[0])
    sim.pass_time(2.0)
    assert sim.job(early).state is SecondaryStatus.TRAINING
    assert sim.job(late).cluster == ""
    assert "waited -" not in " ".join(sim.start_reason(early).notes)


def test_after_a_boot_the_clock_is_believed(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=300)
    (pool,) = sim.pools()
    sim.kill_controller()
    sim.world.boot_id = "second boot"
    sim.world.set_clock(50.0)
    sim.restart()
    (seen,) = sim.pools()
    assert (seen.expires_at or 0.0) <= (pool.expires_at or 0.0)


def test_the_clock_is_written_down_once_and_not_at_each_look(sim: Simulation) -> None:
    kept = sim.controller.store.clock_offset()
    assert kept is not None
    assert kept.boot == sim.world.boot_id
    writes = sim.controller.store.writes
    sim.pass_time(20.0)
    assert sim.controller.store.writes == writes

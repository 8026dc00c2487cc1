"""What a warm pool saves: the time in which its hosts were brought up, for each job after the first; nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.model.text import format_duration
from jupyter_smx.testing.fakes.fake_host import FakeScript

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

KEPT = 600


def saved(sim: Simulation) -> float:
    (pool,) = sim.pools()
    return sim.controller.live_state.pool_summary(pool).saved_seconds


def test_each_job_after_the_first_is_spared_the_launch(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=KEPT)
    assert saved(sim) == 0
    for count in (1, 2):
        job = sim.run_to_end(keep_alive=KEPT)
        (pool,) = sim.pools()
        took = pool.cold_start_seconds
        assert took == pytest.approx(sim.engine.launch_seconds, abs=0.05)
        assert saved(sim) == count * took
        # `why` has the share of this one job under the same word.
        words = f"Saved {format_duration(took)}: the launch of the pool's hosts took that long."
        assert sim.start_reason(job).notes[0] == words


def test_the_time_in_the_queue_is_nothing_that_a_pool_saves(sim: Simulation) -> None:
    first, waits = sim.submit(hosts=2), sim.submit(keep_alive=KEPT)
    sim.pass_time(100)
    sim.end_job(first)
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    sim.end_job(waits)
    sim.run_to_end(keep_alive=KEPT)
    assert saved(sim) == pytest.approx(sim.engine.launch_seconds, abs=0.05)


def test_an_attempt_that_was_lost_is_nothing_that_the_next_ones_pool_saves(sim: Simulation) -> None:
    job = sim.submit(keep_alive=KEPT, retries=1)
    sim.pass_time(50)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(10)
    assert (sim.job(job).attempt, sim.job(job).state) == (2, SecondaryStatus.TRAINING)
    sim.end_job(job)
    sim.run_to_end(keep_alive=KEPT)
    assert saved(sim) == pytest.approx(sim.engine.launch_seconds, abs=0.05)


def test_a_first_job_that_was_stopped_over_its_inputs_leaves_the_launch_as_the_measure(sim: Simulation) -> None:
    first = sim.submit(keep_alive=KEPT)
    sim.world.scripts[first] = FakeScript(starts_after=30)
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    sim.stop(first)
    sim.pass_time(5)
    assert sim.job(first).state is SecondaryStatus.STOPPED
    sim.run_to_end(keep_alive=KEPT)
    assert saved(sim) == pytest.approx(sim.engine.launch_seconds, abs=0.05)


def test_of_a_launch_that_outlived_its_controller_nothing_is_claimed(sim: Simulation) -> None:
    job = sim.submit(keep_alive=KEPT)
    sim.kill_controller()
    sim.pass_time(100)
    sim.restart()
    sim.pass_time(sim.engine.launch_seconds + 0.1)
    sim.end_job(job)
    sim.run_to_end(keep_alive=KEPT)
    assert saved(sim) == 0

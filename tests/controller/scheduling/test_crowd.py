"""Many job requests at once: in a long queue, jobs start in order, after a pause in the requests or a maximum delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.status import Status
from jupyter_smx.policy.scheduling.fair_queue import BURST_SIZE, DEBOUNCE, MAX_DELAY

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

ALL = 3
"""Hosts of the simulated machine; each job here needs all of them."""


@pytest.fixture
def running(sim: Simulation) -> str:
    """Return a job that runs on all hosts and leaves them warm."""
    job = sim.submit(hosts=ALL, keep_alive=600)
    sim.pass_time(5.5)  # between two reconcile passes
    return job


def hand_in(sim: Simulation, count: int) -> list[str]:
    return [sim.submit(hosts=ALL, keep_alive=600) for _ in range(count)]


def begun(sim: Simulation, jobs: list[str]) -> int:
    """Return the number of jobs that have, or had, hosts; they must be the first in the queue."""
    had = [bool(sim.job(job).cluster) for job in jobs]
    assert had == sorted(had, reverse=True)
    return sum(had)


def test_the_next_of_a_long_line_begins_when_no_wish_has_come_for_a_moment(sim: Simulation, running: str) -> None:
    line = hand_in(sim, BURST_SIZE)
    sim.end_job(running)
    assert begun(sim, line) == 1, "the line was not called for long"
    hand_in(sim, 1)
    sim.end_job(line[0])
    assert begun(sim, line) == 1
    sim.pass_time(DEBOUNCE / 2)
    hand_in(sim, 1)
    sim.pass_time(DEBOUNCE * 0.9)
    assert begun(sim, line) == 1, "somebody came meanwhile"
    sim.pass_time(DEBOUNCE * 0.2)
    assert begun(sim, line) == 2


def test_the_next_of_a_short_line_begins_at_once(sim: Simulation, running: str) -> None:
    line = hand_in(sim, BURST_SIZE - 1)
    sim.end_job(running)
    for place, job in enumerate(line[:-1], start=1):
        assert begun(sim, line) == place
        sim.end_job(job)


def test_however_many_come_the_line_is_called_in_the_end(sim: Simulation, running: str) -> None:
    line = hand_in(sim, BURST_SIZE + 1)
    sim.end_job(running)
    sim.end_job(line[0])
    came = 0
    while begun(sim, line) == 1 and came < 100:
        hand_in(sim, 1)
        sim.pass_time(DEBOUNCE / 2)
        came += 1
    assert came == pytest.approx(MAX_DELAY / (DEBOUNCE / 2), abs=1)
    assert sim.job(line[0]).status() is Status.COMPLETED


def test_a_controller_that_ends_calls_no_line(sim: Simulation, running: str) -> None:
    line = hand_in(sim, BURST_SIZE + 1)
    sim.end_job(running)
    sim.end_job(line[0])
    sim.kill_controller()
    sim.controller.reconciler.schedule_waiting_jobs()  # as a request on an open connection would
    sim.pass_time(1.0)
    assert not sim.bugs
    sim.restart()
    assert begun(sim, line) == 2

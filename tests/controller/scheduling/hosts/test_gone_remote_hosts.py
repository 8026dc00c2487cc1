"""Hosts that are gone and share no folder with the controller: their engine reads record, log and artefacts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_engine import SpoolUnreadable
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1.0
LOG = b"epoch 1\n" * 100_000
"""More than one piece."""


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(has_remains=False) as simulation:
        simulation.engine.reads_spool = True
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def started(sim: Simulation) -> str:
    job = sim.submit()
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    (host.spool / job / "log").write_bytes(LOG)
    return job


def log_of(sim: Simulation, job: str) -> bytes:
    return (sim.folder / "jobs" / job / "logs" / "algo-1.log").read_bytes()


def ended_unseen(sim: Simulation) -> str:
    """Let a job end and its host go while no controller lives."""
    job = started(sim)
    (host,) = sim.hosts(job)
    sim.kill_controller()
    sim.end_job(job, artifacts={"outputs/out/file": b"model" * 100_000})
    sim.kill_host(host)
    return job


def test_a_job_that_ended_before_its_host_was_lost_is_completed_with_its_log_and_artefacts(sim: Simulation) -> None:
    job = ended_unseen(sim)
    sim.restart()
    sim.pass_time(30)
    assert sim.job(job).status() is Status.COMPLETED
    assert log_of(sim, job) == LOG
    (artifact,) = sim.job(job).artifacts
    assert Path(artifact.path).read_bytes() == b"model" * 100_000


def test_what_cannot_be_read_now_is_read_later_and_the_job_says_why_it_waits(sim: Simulation) -> None:
    job = ended_unseen(sim)
    sim.set_faults(SpoolUnreadable())
    sim.restart()
    sim.pass_time(600)
    waits = sim.job(job)
    assert waits.status() is Status.IN_PROGRESS
    assert waits.transitions[-1].status_message == (
        "Its hosts are gone, and their files cannot be read now: The machine of the host cannot be reached."
    )
    sim.set_faults()
    sim.pass_time(10)
    assert sim.job(job).status() is Status.COMPLETED


def test_a_stop_does_not_wait_for_what_cannot_be_read(sim: Simulation) -> None:
    job = started(sim)
    sim.set_faults(SpoolUnreadable())
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(30)
    assert sim.job(job).status() is Status.IN_PROGRESS
    sim.stop(job)
    sim.pass_time(10)
    assert sim.job(job).status() is Status.STOPPED


def test_a_host_that_kept_no_log_never_began_the_code_so_the_job_is_placed_again(sim: Simulation) -> None:
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=5)
    sim.submit(job_id=job)
    sim.pass_time(START)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(30)
    assert (sim.job(job).state, sim.job(job).placements) == (SecondaryStatus.TRAINING, 2)
    sim.end_job(job)


def test_code_that_had_begun_is_not_begun_again_and_its_log_comes_as_far_as_it_goes(sim: Simulation) -> None:
    job = started(sim)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(30)
    assert sim.job(job).failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."
    assert log_of(sim, job) == LOG
    assert sum(sim.world.start_counts.values()) == 1

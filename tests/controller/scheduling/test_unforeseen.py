"""Whatever an engine or the system raises, each job ends, as an internal error with a message, and leaves nothing."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.controller.state.job_runtime import JobRuntime
from jupyter_smx.controller.transfer import input_listing, stage_out
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.policy.lifecycle import spot
from jupyter_smx.testing.fakes.fake_engine import Fault, Outage, PausedHosts
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from jupyter_smx.engines.base import Observation
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.channel import Artifact
    from jupyter_smx.policy.lifecycle.next_step import JobObservation
    from jupyter_smx.testing.fakes.fake_world import FakeWorld

START = 0.6
RAW = [OSError(errno.ESTALE, "Stale file handle"), RuntimeError("a bug"), KeyError("bug"), TimeoutError()]
"""Exceptions that no code raises on purpose."""
IDS = ["the system", "a bug", "another", "no message"]


@pytest.fixture
def far() -> Iterator[Simulation]:
    with Simulation(engine=FakeImageEngine) as simulation:
        engine(simulation).default = "train:1"
        yield simulation


def engine(sim: Simulation) -> FakeImageEngine:
    assert isinstance(sim.engine, FakeImageEngine)
    return sim.engine


def ended(sim: Simulation, job: str, error: Exception, *, starts: int = 0) -> str:
    """Assert that a job failed by an internal error, with a log entry and no host left; return the reason."""
    record = sim.job(job)
    assert record.status() is Status.FAILED
    assert record.failure_reason.startswith("InternalServerError: ")
    assert type(error).__name__ in record.failure_reason
    assert (str(error) or "no message") in record.failure_reason
    assert any("Traceback" in bug and type(error).__name__ in bug for bug in sim.bugs)
    sim.bugs.clear()
    sim.pass_time(60)
    assert sim.world.live_hosts() == []
    assert sum(sim.world.start_counts.values()) == starts
    assert sim.bugs == []
    return record.failure_reason


class Breaks(Fault):
    """Raises an unexpected error at one of the steps, while the fault lasts."""

    def __init__(self, when: str, error: Exception) -> None:
        self.when = when
        self.error = error

    def _at(self, when: str) -> None:
        if when == self.when:
            raise self.error

    async def before_launch(self) -> None:
        self._at("before the launch")

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        del world, cluster
        self._at("after the launch")

    def on_call(self) -> None:
        self._at("at every question")

    def on_connect(self, host: str) -> None:
        del host
        self._at("at the connection")

    def on_observe(self, found: Observation) -> Observation:
        self._at("at a survey")
        return found


@pytest.mark.parametrize("error", RAW, ids=IDS)
def test_an_image_that_cannot_even_be_asked_for_ends_the_job(far: Simulation, error: Exception) -> None:
    engine(far).resolve_error = error
    job = far.submit(image="train:1")
    far.pass_time(START)
    assert "Inspecting the image (train:1) failed unexpectedly" in ended(far, job, error)
    assert engine(far).resolve_counts["train:1"] == 1


@pytest.mark.parametrize("error", RAW, ids=IDS)
def test_what_cannot_be_brought_for_an_unknown_reason_ends_the_job(
    far: Simulation, tmp_path: Path, error: Exception
) -> None:
    engine(far).provide_error = error
    job = far.submit(channels=(Channel(name="x", source=str(tmp_path)),), keep_alive=600)
    far.pass_time(START)
    assert "Copying files to the hosts failed unexpectedly" in ended(far, job, error)


def test_sources_that_the_system_does_not_let_us_look_at_end_the_job(
    far: Simulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("Symlink loop")

    def list_inputs(_spec: object) -> None:
        raise error

    monkeypatch.setattr(input_listing, "list_inputs", list_inputs)
    job = far.submit(channels=(Channel(name="x", source=str(tmp_path)),))
    far.pass_time(START)
    ended(far, job, error)


@pytest.mark.parametrize(
    ("when", "error"),
    [
        *((when, error) for when in ("before the launch", "after the launch") for error in RAW),
        # An OSError is expected there: the host cannot be reached, and the connection is tried again.
        *(("at the connection", error) for error in RAW if not isinstance(error, OSError)),
    ],
)
def test_hosts_that_break_off_while_they_come_up_end_the_job_and_go(
    sim: Simulation, when: str, error: Exception
) -> None:
    sim.set_faults(Breaks(when, error))
    job = sim.submit(keep_alive=600)
    sim.pass_time(2)
    ended(sim, job, error)


def test_a_build_that_breaks_off_ends_the_job_by_our_fault_and_not_by_its_own(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.EIO, "Input/output error")

    async def build(*_words: object) -> None:
        raise error

    monkeypatch.setattr(sim.world.builder, "build", build)
    job = sim.submit(requirements=("numpy",))
    sim.pass_time(2)
    ended(sim, job, error)


def test_a_survey_that_breaks_off_loses_nobody_and_the_next_one_counts(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.set_faults(Breaks("at a survey", RuntimeError("a bug")))
    sim.pass_time(20)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert all("Observing the engine fake failed unexpectedly" in bug for bug in sim.bugs)
    assert len(sim.bugs) >= 3
    sim.bugs.clear()
    sim.set_faults()
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(20)
    assert sim.job(job).status() is Status.FAILED


def test_an_end_that_breaks_off_every_time_fails_its_job_and_its_hosts_go(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = KeyError("bug")
    job, other = sim.submit(keep_alive=600), sim.submit()
    sim.pass_time(START)
    monkeypatch.setattr(stage_out.OutputStager, "stage_out", raising(error, sim.job(job).name))
    sim.end_job(job)
    sim.end_job(other)
    sim.pass_time(5)
    assert sim.job(other).status() is Status.COMPLETED
    assert "Finalizing waits: " in sim.job(job).transitions[-1].status_message
    sim.pass_time(20)
    assert f"Finalizing {sim.job(job).name} failed unexpectedly" in ended(sim, job, error, starts=2)


def test_an_end_that_breaks_off_once_is_tried_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    job = sim.submit()
    sim.pass_time(START)
    with monkeypatch.context() as patched:
        patched.setattr(stage_out.OutputStager, "stage_out", raising(RuntimeError("a bug"), sim.job(job).name))
        sim.end_job(job)
        sim.pass_time(2.5)
    assert len(sim.bugs) == 2
    sim.bugs.clear()
    sim.pass_time(5)
    assert sim.job(job).status() is Status.COMPLETED


def test_what_breaks_off_after_a_verdict_changes_nothing_of_it(sim: Simulation) -> None:
    def tell(_job: Job) -> None:
        raise RuntimeError("a bug")

    job = sim.submit()
    sim.pass_time(START)
    sim.controller.reconciler._finalizer.on_outcome = tell
    sim.end_job(job)
    sim.pass_time(30)
    assert sim.job(job).status() is Status.COMPLETED
    assert len(sim.bugs) == 1
    sim.bugs.clear()


def test_a_job_that_cannot_be_looked_at_keeps_no_other_from_its_turn(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observation(trail: JobRuntime, **known: bool) -> JobObservation:
        if trail is sim.controller.reconciler.runtimes.find(bad):
            raise RuntimeError("a bug")
        return was(trail, **known)

    def over(job: Job, now: float) -> bool:
        if job.id == bad:
            raise RuntimeError("a bug")
        return was_over(job, now)

    was, was_over = JobRuntime.observation, spot.is_wait_over
    bad = sim.submit()
    sim.pass_time(START)
    monkeypatch.setattr(JobRuntime, "observation", observation)
    monkeypatch.setattr(spot, "is_wait_over", over)
    other = sim.submit()
    sim.pass_time(START + 1)
    sim.end_job(other)
    sim.pass_time(5)
    assert sim.job(other).status() is Status.COMPLETED
    sim.restart()
    sim.pass_time(30)
    assert sum("Observing the engine train-" in bug for bug in sim.bugs) <= 12
    sim.bugs.clear()
    monkeypatch.undo()
    sim.end_job(bad)
    sim.pass_time(31)
    assert sim.job(bad).status() is Status.COMPLETED


def raising(error: Exception, name: str) -> Callable[..., Awaitable[tuple[Artifact, ...]]]:
    """Return a stage_out that raises for one job, and collects nothing for the others."""

    async def stage_out(_home: object, job: Job, _everything: object) -> tuple[Artifact, ...]:
        if job.name == name:
            raise error
        return ()

    return stage_out


def slow_to_begin(sim: Simulation) -> str:
    """Return a job whose hosts are up and whose code has not started yet."""
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=5)
    sim.submit(job_id=job)
    sim.pass_time(START)
    return job


def break_remains(sim: Simulation, patched: pytest.MonkeyPatch, times: int) -> None:
    """Let reading a host's spool fail ``times`` times with an unexpected error."""
    finisher, tries = sim.controller.reconciler._finalizer, iter(range(times))
    read = finisher.read_spool

    async def read_or_not(job: Job, host: str) -> tuple[bool, dict[str, Any] | None]:
        if next(tries, None) is not None:
            raise KeyError("bug")
        return await read(job, host)

    patched.setattr(finisher, "read_spool", read_or_not)


def test_what_lost_hosts_left_is_read_again_where_that_broke_off(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = slow_to_begin(sim)
    break_remains(sim, monkeypatch, 3)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(30)
    assert len(sim.bugs) == 3
    sim.bugs.clear()
    assert (sim.job(job).state, sim.job(job).placements) == (SecondaryStatus.TRAINING, 2)
    sim.end_job(job)


def test_what_lost_hosts_left_is_read_once_however_long_that_takes(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    finisher, has_read = sim.controller.reconciler._finalizer, asyncio.Event()
    read, asked = finisher.read_spool, []

    async def read_slowly(job: Job, host: str) -> tuple[bool, dict[str, Any] | None]:
        asked.append(host)
        await has_read.wait()
        return await read(job, host)

    monkeypatch.setattr(finisher, "read_spool", read_slowly)
    job = sim.submit()
    sim.pass_time(START)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(10)
    assert (asked, sim.pools(), sim.job(job).state) == (["algo-1"], [], SecondaryStatus.TRAINING)
    sim.call(has_read.set)
    assert sim.job(job).status() is Status.FAILED


def test_what_lost_hosts_left_and_nobody_can_ever_read_fails_their_job(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = slow_to_begin(sim)
    break_remains(sim, monkeypatch, 1000)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(60)
    assert sim.job(job).failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."
    assert (sim.world.live_hosts(), sim.world.start_counts) == ([], {})
    assert 5 <= len(sim.bugs) <= 7
    sim.bugs.clear()


def test_a_job_that_is_let_go_while_its_engine_is_away_does_not_wait_for_that_when_reading_broke_off(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.set_faults(PausedHosts(), Outage())
    sim.break_streams(sim.hosts(job)[0])
    break_remains(sim, monkeypatch, 1)
    sim.stop(job)
    sim.pass_time(200)
    assert sim.job(job).status() is Status.STOPPED
    assert [pool.state for pool in sim.pools()] == [ClusterState.RELEASING]
    assert len(sim.bugs) == 1
    sim.bugs.clear()


def test_a_job_that_breaks_off_is_retried_where_it_asked_for_that(far: Simulation, tmp_path: Path) -> None:
    engine(far).provide_error = RuntimeError("a bug")
    job = far.submit(channels=(Channel(name="x", source=str(tmp_path)),), retries=1)
    far.pass_time(START)
    engine(far).provide_error = None
    far.pass_time(30)
    assert far.job(job).state is SecondaryStatus.TRAINING
    assert far.job(job).attempt == 2
    assert len(far.bugs) == 1
    far.bugs.clear()


def test_a_release_that_breaks_off_is_tried_again_with_pauses(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600)
    sim.set_faults(Breaks("at every question", RuntimeError("a bug")))
    sim.call(lambda: sim.controller.facade.release(sim.pools()[0].id))
    sim.pass_time(60)
    assert 3 <= len(sim.bugs) <= 12
    assert all("failed unexpectedly" in bug for bug in sim.bugs)
    assert len(sim.world.live_hosts()) == 1
    sim.bugs.clear()
    sim.set_faults()
    sim.pass_time(31)
    assert sim.world.live_hosts() == []

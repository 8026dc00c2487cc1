"""A laptop that was closed: remote hosts whose time is over keep results until a controller has read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_engine import FakeUnsharedEngine
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import LIMITS, CrashingStore, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jupyter_smx.engines.base import Capabilities
    from jupyter_smx.model.records.cluster import Handle

START = 1.0
LONG = 160.0
"""Seconds for which no controller lives: longer than an agent stays open after a job without keep-alive."""


class SlowFiles(FakeUnsharedEngine):
    """Brings nothing the first time that it is asked."""

    is_asked = False

    capabilities: Capabilities = replace(FakeUnsharedEngine.capabilities, same_paths=False)

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Bring them the second time."""
        del handle, host
        if not self.is_asked:
            self.is_asked = True
            await asyncio.Event().wait()
        return {source: source for source in sources}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(engine=FakeUnsharedEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def end_unseen(sim: Simulation, away: float = LONG, **fields: int) -> str:
    """Let a job end while no controller lives; a controller starts ``away`` seconds later."""
    job = sim.submit(**fields)
    sim.pass_time(START)
    for host in sim.hosts(job):
        (host.spool / job / "log").write_bytes(b"epoch 1\n")
    sim.kill_controller()
    sim.end_job(job, artifacts={"outputs/out/file": b"model"})
    sim.pass_time(away)
    assert sim.world.live_hosts()
    sim.restart()
    return job


@pytest.mark.parametrize("hosts", [1, 2])
def test_results_of_a_closed_host_are_read_and_then_it_is_released(sim: Simulation, hosts: int) -> None:
    job = end_unseen(sim, hosts=hosts, max_run=100)
    sim.pass_time(START)
    assert sim.job(job).status() is Status.COMPLETED
    (artifact,) = sim.job(job).artifacts
    assert Path(artifact.path).read_bytes() == b"model"
    assert (sim.folder / "jobs" / job / "logs" / "algo-1.log").read_bytes() == b"epoch 1\n"
    assert (sim.world.live_hosts(), sim.pools()) == ([], [])


def test_the_pool_of_a_closed_host_takes_no_job(sim: Simulation) -> None:
    first = end_unseen(sim, keep_alive=100)
    second = sim.submit(keep_alive=100)
    sim.pass_time(START)
    assert sim.job(first).status() is Status.COMPLETED
    pool = sim.job(first).warm_pool
    assert pool is not None
    assert pool.reason == "Its hosts take no more jobs, because their time is over."
    assert sim.start_reason(second).start == "cold"
    assert sim.job(second).state is SecondaryStatus.TRAINING
    sim.end_job(second)


@pytest.mark.parametrize("reads", [True, False])
def test_a_job_that_a_closed_host_never_got_runs_on_another_one(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """The controller died after it had taken the pool, and before it had said that results were read."""
    sim.engine.reads_spool = reads
    monkeypatch.setattr(sim.controller.reconciler._finalizer, "_schedule_forget", lambda *_: None)
    first = sim.submit(keep_alive=10)
    sim.pass_time(START)
    (host,) = sim.hosts(first)
    sim.end_job(first)
    sim.kill_controller_at_write(1, before=False)
    second = sim.submit(keep_alive=10)
    sim.pass_time(LONG)
    assert host.is_closed
    sim.restart()
    sim.pass_time(20)
    assert (sim.job(second).state, sim.world.start_counts[second, "algo-1"]) == (SecondaryStatus.TRAINING, 1)
    sim.end_job(second)
    assert sim.job(second).status() is Status.COMPLETED


def test_results_are_kept_for_as_long_as_the_administrator_says(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.kill_controller()
    sim.end_job(job)
    sim.pass_time(60 + LIMITS.keep_uncollected + 1)
    assert not sim.world.live_hosts()
    sim.restart()
    sim.pass_time(10)
    assert sim.job(job).failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."


def test_a_host_that_closes_under_a_controller_with_a_full_disk_loses_nothing(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.fill_disk()
    sim.end_job(job, artifacts={"outputs/out/file": b"model"})
    sim.pass_time(LONG)
    assert [host.is_closed for host in sim.world.live_hosts()] == [True]
    sim.free_disk()
    sim.pass_time(40)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.pools(ClusterState.AVAILABLE) == []


def test_a_host_that_was_lost_before_the_job_was_sent_is_replaced_though_nothing_can_be_read() -> None:
    with Simulation(engine=SlowFiles) as sim:
        job = sim.submit(send=Payload(path="/variables", sha256="0", sizes={"x": 1}))
        sim.pass_time(START)
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(60)
        assert (sim.job(job).state, sim.job(job).placements) == (SecondaryStatus.TRAINING, 2)
        sim.end_job(job)
        assert not sim.bugs


@pytest.mark.parametrize("restarted", [False, True])
def test_a_host_that_was_lost_after_the_job_was_sent_may_have_run_it(sim: Simulation, restarted: bool) -> None:
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=5)
    sim.submit(job_id=job)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    if restarted:
        sim.kill_controller()
        sim.kill_host(host)
        sim.restart()
    else:
        sim.kill_host(host)
    sim.pass_time(30)
    assert sim.job(job).failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."


@pytest.mark.parametrize("write", range(1, 7))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_while_it_collects_loses_nothing(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, write: int, before: bool
) -> None:
    job = sim.submit(keep_alive=20)
    sim.pass_time(START)
    sim.kill_controller()
    sim.end_job(job, artifacts={"outputs/out/file": b"model"})
    sim.pass_time(LONG)
    with monkeypatch.context() as patched:
        patched.setattr(CrashingStore, "writes_left", write)
        patched.setattr(CrashingStore, "is_killed_before_write", before)
        sim.restart()
        sim.pass_time(5)
    sim.restart()
    sim.pass_time(5)
    assert sim.job(job).status() is Status.COMPLETED
    assert [artifact.size for artifact in sim.job(job).artifacts] == [5]
    assert (sim.world.live_hosts(), sim.pools(), sim.world.start_counts[job, "algo-1"]) == ([], [], 1)

"""Small faults inside a host that have no effect on any job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from world import PATIENCE, ZYGOTE, comm, frozen

from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from world import World


def parked(world: World) -> list[int]:
    """Return the process ids of the children that wait for a job."""
    return [seen.pid for seen in process_scan.cluster_processes(world.cluster()) if comm(seen.pid) == "smx-job"]


def test_what_a_job_writes_at_once_and_only_once_is_always_seen(shared: World) -> None:
    for _ in range(40):
        gate = shared.gate()
        job = shared.submit(gate=gate)
        job.until_it_says("begun")
        gate.touch()
        assert job.wait().state is SecondaryStatus.COMPLETED


def test_whoever_waits_for_the_log_of_a_job_that_never_writes_hears_its_end(shared: World) -> None:
    nowhere = (Channel(name="train", source="/no/such/folder"),)
    for _ in range(20):
        job = shared.submit(channels=nowhere)
        began = time.monotonic()
        piece = shared.client.log(job.id, "", 0, wait=PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2, "it waited for news that had come"
        assert (piece.data, piece.final) == (b"", True)
        assert job.job().failure_reason.startswith("ClientError: channel train: ")
        assert job.runs() == 0


def test_a_parked_process_that_dies_is_replaced_before_the_next_job(shared: World) -> None:
    (zygote,) = [pid for pid in shared.zygotes() if comm(pid) == ZYGOTE]
    eventually_blocking(lambda: parked(shared), "a process is parked", within=PATIENCE)
    with frozen(zygote):
        # The frozen zygote cannot report this end: the agent only sees that the socket is closed.
        for pid in parked(shared):
            process_scan.kill_and_wait(pid)
        job = shared.submit()
    assert job.wait().state is SecondaryStatus.COMPLETED
    assert job.runs() == 1


def test_a_parked_process_that_died_unseen_gets_no_job(shared: World) -> None:
    eventually_blocking(lambda: parked(shared), "a process is parked", within=PATIENCE)
    with frozen(shared.agent()):
        # The agent will read the job's request first, and the end of the child after it.
        job = shared.submit()
        for pid in parked(shared):
            process_scan.kill_and_wait(pid)
    ended = job.wait()
    assert (ended.state, job.runs()) == (SecondaryStatus.COMPLETED, 1), ended.failure_reason


def test_parked_processes_that_die_just_before_a_job_harm_none(shared: World) -> None:
    for _ in range(15):
        for pid in parked(shared):
            process_scan.kill_and_wait(pid)
        job = shared.submit()
        ended = job.wait()
        assert (ended.state, job.runs()) == (SecondaryStatus.COMPLETED, 1), ended.failure_reason

"""A remote machine has another clock, is taken away with a notice, or loses what started its agents."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from world import kill

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import RemoteWorld

HOUR = 3_600.0
KEEP = 300
SAVES = """
import os, signal, sys
def save(*_):
    with open(os.environ["SM_MODEL_DIR"] + "/saved", "w") as file:
        file.write("step 7")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("waits", flush=True)
signal.pause()
"""


def agent_of(remote: RemoteWorld) -> int:
    """Give the one agent of the machine."""
    (pid,) = remote.agents()
    return pid


def give_notice(remote: RemoteWorld) -> None:
    os.kill(agent_of(remote), signal.SIGTERM)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("ahead", [-HOUR, HOUR, -20.0, 20.0])
def test_a_pool_on_a_machine_with_another_clock_keeps_its_keep_alive_and_its_jobs_true_moments(
    remote: RemoteWorld, configure: Callable[[str], None], ahead: float
) -> None:
    configure(f"c.ToyEngine.clock_offset = {ahead}")
    before = time.time()
    first = remote.run(keep_alive=KEEP)
    done = time.time()
    (pool,) = remote.pools()
    assert (pool.state, pool.expires_at) == ("Available", pytest.approx(done + KEEP, abs=1.0))
    second = remote.run(keep_alive=KEEP)
    assert second.why().startswith("Warm")
    for job in (first.job(), second.job()):
        at = [job.timings[name] for name in ("sent", "received", "awake", "first_line", "exited", "ended", "final")]
        assert all(later - earlier >= -0.05 for earlier, later in pairwise([before, *at, time.time()])), job.timings
        assert job.ended_at is not None
        assert before <= (job.started_at or 0.0) <= job.ended_at <= time.time()
    warm = second.job()
    assert warm.timings["first_line"] - warm.created_at < 10.0


def test_a_job_whose_machine_is_taken_away_saves_its_work_and_says_so(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.notice_grace = 20.0")
    job = remote.submit(SAVES)
    job.until_it_says("waits")
    give_notice(remote)
    record = job.wait()
    assert record.failure_reason.startswith("InternalServerError: The machine of algo-1 was taken away: ")
    assert (record.hosts[0].cause, record.hosts[0].exit_code) == ("interrupted", 0)
    assert [artifact.name for artifact in record.artifacts] == ["model.tar.gz"]
    eventually_blocking(lambda: not remote.agents(), "the agent has ended")


def test_a_spot_job_begins_again_on_another_host(remote: RemoteWorld, configure: Callable[[str], None]) -> None:
    configure("c.ToyEngine.notice_grace = 20.0")
    gate = remote.gate()
    job = remote.submit(gate=gate, spot=True)
    job.until_it_says("begun")
    give_notice(remote)
    job.until(lambda seen: seen.attempt == 2, "the job began again")
    gate.touch()
    record = job.wait()
    assert (record.state.value, job.runs()) == ("Completed", 2)
    assert record.attempts[0].interrupted


def test_a_job_ends_with_the_process_that_started_its_agent(
    remote: RemoteWorld, configure: Callable[[str], None]
) -> None:
    configure("c.ToyEngine.has_parents = True")
    job = remote.submit(gate=remote.gate())
    job.until_it_says("begun")
    cluster = job.job().cluster
    found = remote.agents()  # its parent has the same words
    (parent,) = {parent_of(pid) for pid in found}.intersection(found)
    kill(parent)
    assert job.wait().failure_reason.startswith("InternalServerError")
    eventually_blocking(lambda: not process_scan.cluster_processes(cluster), "no process of the host is left")
    assert job.runs() == 1

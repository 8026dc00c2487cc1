"""Bugs of hosts that other systems shipped, by their numbers in our catalogue, with their figures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from world import PATIENCE, kill

from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.cgroup import bounded_group, processes
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from world import Ran, World

COMPLETED, FAILED, STOPPED = SecondaryStatus.COMPLETED, SecondaryStatus.FAILED, SecondaryStatus.STOPPED


@pytest.fixture
def world(shared_world: World) -> World:
    """Provide the world of the module."""
    return shared_world


BURST = 100
MEDIAN, WORST = 0.1, 0.5
"""Seconds from the job's message to its first line: of the median, and of all but the slowest one of a hundred."""
SHARE = 0.5
"""How much of a library's private memory a job may still have once its host has learnt the import."""

PRIVATE = """
import os, sys
there = "numpy" in sys.modules
import numpy
numpy.ones(3).sum()
rows = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup") if ":" in line[:20])
import json
print(json.dumps([there, sum(int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))]))
"""


def told(job: Ran) -> list[object]:
    """Read what a job printed as JSON between its first and its last line."""
    found: list[object] = json.loads(job.log().splitlines()[1])
    return found


def test_bug_06_what_jobs_import_is_shared_by_them_once_the_host_has_learnt_it(world: World) -> None:
    pytest.importorskip("numpy")
    there, alone = told(world.run(PRIVATE))
    assert there is False

    def learnt() -> list[object]:
        seen = told(world.run(PRIVATE))
        return seen if seen[0] else []

    _, shared = eventually_blocking(learnt, "numpy is there before the job", within=PATIENCE)
    assert isinstance(alone, int)
    assert isinstance(shared, int)
    assert shared < SHARE * alone, f"{shared} of {alone} kilobytes are private"
    for _ in range(5):
        here, private = told(world.run(PRIVATE))
        assert here
        assert isinstance(private, int)
        assert private < SHARE * alone
    print(f"{alone} KB private at first, then {shared}")  # noqa: T201 - shown when a limit is not kept


def test_bug_09_a_process_that_a_job_left_in_the_background_keeps_no_pool_alive(world: World) -> None:
    job = world.run(
        "import subprocess\n"
        "print(subprocess.Popen(['nohup', 'sleep', '1000'], stdout=-3, stderr=-3, start_new_session=True).pid)",
        keep_alive=1,
    )
    pid = int(job.log().splitlines()[1])
    record = job.job()
    assert any(f"process {pid} (" in sentence for end in record.hosts for sentence in end.left_behind)
    eventually_blocking(lambda: process_scan.read_process(pid) is None, "it is dead", within=PATIENCE)
    eventually_blocking(lambda: not world.pools(), "the pool ended at its deadline", within=PATIENCE)
    ended = job.until(lambda one: one.warm_pool and one.warm_pool.status.value == "Terminated", "the record says it")
    assert ended.warm_pool is not None
    assert ended.warm_pool.resource_retained_billable_seconds <= 3, "seconds; the keep-alive was one"


def test_bug_09_a_job_whose_work_goes_on_in_a_child_is_activity_until_it_ends(world: World) -> None:
    gate = world.gate()
    job = world.submit(
        f"if not os.fork():\n    import time\n    while not os.path.exists({os.fspath(gate)!r}): time.sleep(0.01)\n"
        "    os._exit(0)\nos.wait()",
        keep_alive=1,
    )
    job.until_it_says("begun")
    (pool,) = world.pools()
    assert (pool.state, pool.expires_at) == ("InUse", None)
    gate.touch()
    assert job.wait().state is COMPLETED


def test_bug_16_a_burst_of_jobs_does_not_wait_for_the_children_that_are_parked_meanwhile(world: World) -> None:
    before = world.clusters_ever()
    world.warm()
    jobs = [world.run() for _ in range(BURST)]
    waits = []
    for job in jobs:
        timings = job.job().timings
        waits.append(timings["first_line"] - timings["received"])
    waits.sort()
    assert [job.runs() for job in jobs] == [1] * BURST
    assert world.clusters_ever() - before == 1
    figures = f"median {waits[BURST // 2] * 1000:.1f} ms, p99 {waits[BURST - 2] * 1000:.1f} ms"
    print(figures)  # noqa: T201 - shown when a limit is not kept
    assert waits[BURST // 2] < MEDIAN, figures
    assert waits[BURST - 2] < WORST, figures


# 27: each death has its own words


@pytest.fixture
def group() -> Iterator[Path]:
    with bounded_group(160 << 20) as folder:
        yield folder


def confine(world: World, group: Path) -> None:
    """Put a pool's agent with all that it has started into a control group.

    The list of processes is old as soon as it is read: one may be gone, another born outside. So until none is left.
    """
    cluster, agent = world.cluster(), psutil.Process(world.agent())

    def members() -> set[int]:
        # A process has no variables for a moment while its program starts, and no mark by them then.
        marked = {seen.pid for seen in process_scan.cluster_processes(cluster)}
        return marked | {child.pid for child in agent.children(recursive=True)}

    while outside := members() - processes(group):
        for pid in outside:
            with contextlib.suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(pid))


DEATHS = {
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)", "The job was ended by signal 11 (SIGSEGV)."),
    "an abort": ("os.abort()", "The job was ended by signal 6 (SIGABRT)."),
    "its own exit": ("os._exit(9)", "Exit Code: 9"),
    "refused memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nx = bytearray(1 << 30)",
        "MemoryError. Its process had ",
    ),
}


@pytest.mark.parametrize("death", DEATHS)
def test_bug_27_each_death_of_code_has_its_own_sentence_and_costs_no_host(shared: World, death: str) -> None:
    source, sentence = DEATHS[death]
    cluster = shared.run().job().cluster
    job = shared.submit(source)
    ended = job.wait()
    assert ended.state is FAILED
    assert ended.failure_text().startswith(f"AlgorithmError: {sentence}"), ended.failure_text()
    assert shared.run().job().cluster == cluster


def test_bug_27_an_operator_who_kills_a_process_is_not_taken_for_a_lack_of_memory(shared: World) -> None:
    job = shared.submit(gate=shared.gate())
    job.until_it_says("begun")
    os.kill(job.process(), signal.SIGKILL)
    ended = job.wait()
    assert ended.state is FAILED
    assert ended.failure_text() == "AlgorithmError: The job was ended by signal 9 (SIGKILL)."


def test_bug_27_a_stop_by_its_user_is_no_failure(shared: World) -> None:
    job = shared.submit(gate=shared.gate())
    job.until_it_says("begun")
    shared.client.stop(job.id)
    ended = job.wait()
    assert (ended.state, ended.failure_reason) == (STOPPED, "")


def test_bug_27_a_job_that_ran_out_of_memory_says_so_with_how_much_and_its_host_serves_the_next(
    group: Path, world: World
) -> None:
    before = world.clusters_ever()
    world.warm()
    confine(world, group)
    job = world.submit("x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1")
    ended = job.wait()
    assert ended.state is FAILED
    begin = "AlgorithmError: OutOfMemory: The system killed the job for lack of memory: its process had "
    assert ended.failure_text().startswith(begin), ended.failure_text()
    assert "and 160.0 MiB is the limit of its control group." in ended.failure_text()
    assert 'ExtraInfo "OutOfMemory: ' in ended.failure_reason
    assert world.run().why().startswith("Warm: ")
    assert world.clusters_ever() - before == 1
    kill(world.agent())


def test_bug_27_a_host_that_dies_is_not_blamed_on_the_code(world: World) -> None:
    job = world.submit(gate=world.gate())
    job.until_it_says("begun")
    kill(world.agent())
    ended = job.wait()
    assert ended.failure_reason.startswith("InternalServerError: ")
    assert job.runs() == 1

"""CPU and memory of a job on the local engine, by real jobs; where no groups can be made, what is said instead."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace

from jupyter_smx.agent.system.resources import cgroup_limits
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.cgroup import processes
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jupyter_smx.engines.base import ClusterRequest

PARENTS = cgroup_limits.find_parents()
bound = pytest.mark.skipif(len(PARENTS.folders) < 2, reason=f"limits of jobs here: {PARENTS.description()}")

LIMIT = 200 << 20
HUNGRY = "x = bytearray(600 << 20)\nfor at in range(0, len(x), 4096): x[at] = 1\nprint('never')"
BURNER = """
import os, resource, signal, time
began, children = time.monotonic(), []
for _ in range(4):
    pid = os.fork()
    if not pid:
        while True: pass
    children.append(pid)
time.sleep(2)
for pid in children: os.kill(pid, signal.SIGKILL)
for pid in children: os.waitpid(pid, 0)
passed = time.monotonic() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print((used.ru_utime + used.ru_stime) / passed)
"""


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    harness = LocalHarness(tmp_path / "smx")
    yield harness
    await harness.close()


def bounded(world: LocalHarness, memory: int = LIMIT) -> ClusterRequest:
    request = world.request()
    host = replace(request.hosts[0], instance_type="ours.small", vcpus=1, memory=memory)
    return replace(request, hosts=(host,))


def zygotes(cluster: str) -> set[int]:
    return {
        seen.pid
        for seen in process_scan.cluster_processes(cluster)
        if "zygote" in Path(f"/proc/{seen.pid}/comm").read_text()
    }


def group(cluster: str, kind: str) -> Path:
    """Find a group by a file that only one of that kind has."""
    files = {"cpu": ("cpu.cfs_quota_us", "cpu.max"), "memory": ("memory.limit_in_bytes", "memory.max")}
    found = {Path(folder) for folder in process_scan.control_groups(cluster)}
    (one,) = (folder for folder in found if any((folder / name).exists() for name in files[kind]))
    return one


def quota(folder: Path) -> float:
    """Read how many CPUs a group has."""
    if PARENTS.version == 1:
        return int((folder / "cpu.cfs_quota_us").read_text()) / int((folder / "cpu.cfs_period_us").read_text())
    most, period = (folder / "cpu.max").read_text().split()
    return int(most) / int(period)


def tighten(folder: Path) -> None:
    """Leave a group a fiftieth of a CPU."""
    if PARENTS.version == 1:
        (folder / "cpu.cfs_quota_us").write_text("2000")
    else:
        (folder / "cpu.max").write_text("2000 100000")


@bound
@pytest.mark.asyncio
async def test_a_job_computes_no_more_than_its_type_has_whatever_it_starts(world: LocalHarness) -> None:
    request = bounded(world)
    handle = await world.acquire(request)
    async with AgentClient(world.engine, handle) as agent:
        cpu = group(request.cluster, "cpu")
        assert quota(cpu) == 1.0
        # A share that no busy machine hides: 4 processes outside of the group would get more of any.
        tighten(cpu)
        done = await agent.run_and_wait(BURNER)
        assert done.record["cause"] == "exit", done
        assert float(done.log) <= 0.02 + 0.04, "4 processes on a fiftieth of a CPU, and what runs until it is counted"


@bound
@pytest.mark.asyncio
async def test_a_job_that_wants_more_memory_than_its_type_has_dies_alone_and_says_the_number(
    world: LocalHarness,
) -> None:
    request = bounded(world)
    handle = await world.acquire(request)
    async with AgentClient(world.engine, handle) as agent:
        await agent.run_and_wait("pass")
        # A child has its zygote's name until it has its own.
        await eventually(lambda: len(zygotes(request.cluster)) == 1, "one zygote and no child that is just born")
        living = zygotes(request.cluster)
        done = await agent.run_and_wait(HUNGRY, lease=2)
        assert (done.record["cause"], done.record["signal"]) == ("memory", signal.SIGKILL), done
        assert "and 200.0 MiB is the limit of instance type ours.small." in done.record["failure"]
        await eventually(lambda: zygotes(request.cluster) == living, "the zygote is the one that it was")
        again = await agent.run_and_wait("print(len(bytearray(100 << 20)))", lease=3)
        assert (again.record["cause"], again.log) == ("exit", b"104857600\n")


@bound
@pytest.mark.asyncio
async def test_only_jobs_are_in_the_groups_and_what_a_job_may_have_is_in_its_figures(world: LocalHarness) -> None:
    request = bounded(world)
    handle = await world.acquire(request)
    async with AgentClient(world.engine, handle) as agent:
        assert agent.hello["limits"] == {"cpus": 1, "memory": LIMIT}
        job = await agent.run("import os, signal\nprint(os.getpid(), flush=True)\nsignal.pause()")
        pid = int((await agent.wait_for_log(job, b"\n")).split()[0])
        await eventually(lambda: len(zygotes(request.cluster)) == 1, "one zygote and no child that is just born")
        outside = {int(agent.hello["pid"])} | zygotes(request.cluster)
        for kind in ("cpu", "memory"):
            inside = processes(group(request.cluster, kind))
            assert pid in inside
            assert not inside & outside
        await agent.wait_for_event("sampled", job)
        await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
        await agent.wait_for_outcome(job)
        head = (await agent.read(job, "samples")).splitlines()[0]
        assert b'"cpus": 1' in head
        assert f'"memory": {LIMIT}'.encode() in head


@bound
@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["release", "deadline", "killed", "forgotten"])
async def test_the_groups_of_a_host_are_gone_when_it_is(world: LocalHarness, way: str) -> None:
    request = replace(bounded(world), idle_limit=2.0 if way == "deadline" else 120.0)
    handle = await world.acquire(request)
    assert process_scan.control_groups(request.cluster)
    if way == "killed":
        for seen in process_scan.cluster_processes(request.cluster):
            process_scan.kill(seen.pid)
        await eventually(lambda: not process_scan.cluster_processes(request.cluster), "everything is dead")
        assert process_scan.control_groups(request.cluster), "nobody was left to remove them"
    elif way == "forgotten":
        world.purge_cluster(request.cluster)
    if way != "deadline":
        await world.new_engine().release(handle)
    await eventually(lambda: not process_scan.control_groups(request.cluster), "the groups are gone")


@bound
@pytest.mark.asyncio
async def test_groups_that_nobody_knows_any_more_are_swept_by_the_next_start(world: LocalHarness) -> None:
    lost = cgroup_limits.group_name(os.fspath(world.folder), "lost", "algo-1")
    cgroup_limits.make_groups(PARENTS, lost, cgroup_limits.CgroupLimits(cpus=1, memory=LIMIT))
    assert process_scan.control_groups("lost")
    await world.acquire()
    assert process_scan.control_groups("lost") == []


@pytest.mark.asyncio
async def test_where_limits_are_off_or_cannot_be_the_host_its_jobs_and_the_doctor_say_so(tmp_path: Path) -> None:
    world = LocalHarness(tmp_path / "smx", apply_limits=False)
    try:
        request = bounded(world)
        handle = await world.acquire(request)
        assert process_scan.control_groups(request.cluster) == []
        async with AgentClient(world.engine, handle) as agent:
            assert agent.hello["limits"] == {"reason": "LocalEngine.apply_limits is off"}
            job = await agent.run("import signal\nsignal.pause()")
            await agent.wait_for_event("sampled", job)
            await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
            await agent.wait_for_outcome(job)
            said = b"CPU and memory of jobs are not limited here: LocalEngine.apply_limits is off."
            assert said in await agent.read(job, "samples")
        assert (await world.engine.doctor())["limits_of_jobs"] == "none: LocalEngine.apply_limits is off"
    finally:
        await world.close()


@pytest.mark.asyncio
async def test_the_doctor_says_which_limits_there_are(world: LocalHarness) -> None:
    assert (await world.engine.doctor())["limits_of_jobs"] == PARENTS.description()


@pytest.mark.asyncio
async def test_a_child_that_cannot_get_into_its_group_runs_and_says_so(
    world: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.folder / "no-group"
    folder.mkdir()
    (folder / "cgroup.procs").mkdir()
    found = {"cpus": 1, "memory": LIMIT, "groups": {"cpu": str(folder)}, "reason": ""}
    monkeypatch.setattr(world.engine._limits, "make", lambda _request, _plan: found)  # type: ignore[attr-defined]
    handle = await world.acquire(bounded(world))
    async with AgentClient(world.engine, handle) as agent:
        done = await agent.run_and_wait("print('ran')")
        assert done.log == b"ran\n"
        (said,) = done.record["errors"]
        assert said == f"host: CPU and memory of this job are not limited: {folder}/cgroup.procs: Is a directory."

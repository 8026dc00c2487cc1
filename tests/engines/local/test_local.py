"""What the local engine does beyond the contract: its files, its processes, and which processes it never kills."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil
import pytest
import pytest_asyncio

import jupyter_smx
from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.engines.base import Observation, stopped_process
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.engines.machine.host_folder import AgentProcess, HostFolder, complete_process
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups.transfer import last_json
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_smx.engines.base import ClusterRequest


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    harness = LocalHarness(tmp_path / "smx")
    yield harness
    await harness.close()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Provide a foreign process that leads its own session, as an agent does."""
    source = "import signal; print(1, flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def record(world: LocalHarness, cluster: str, **birth: object) -> Handle:
    """Write the folder of a cluster as an agent with this process record would have left it."""
    folder = world.cluster_folder(cluster) / "algo-1"
    folder.mkdir(parents=True)
    (folder / "claim").touch()
    (folder / "agent.json").write_text(json.dumps(birth))
    return Handle(engine="local", cluster=cluster, hosts=(HostHandle(host="algo-1", data=birth),))  # type: ignore[arg-type]


def test_an_agent_that_is_stopped_is_found_by_its_handle(
    world: LocalHarness, stranger: subprocess.Popen[bytes]
) -> None:
    birth = {"pid": stranger.pid, "start_time": started(stranger.pid), "boot_id": process_table.boot_id()}
    handle = record(world, "ab" * 6, **birth)
    assert world.engine.stopped_agent(handle, "algo-1") is None
    stranger.send_signal(signal.SIGSTOP)
    _pid, status = os.waitpid(stranger.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert world.engine.stopped_agent(handle, "algo-1") == stopped_process(stranger.pid)
    assert world.engine.stopped_agent(handle, "algo-2") is None
    another = record(world, "cd" * 6, **(birth | {"start_time": birth["start_time"] + 1}))
    assert world.engine.stopped_agent(another, "algo-1") is None


def started(pid: int) -> int:
    found = process_table.read_process(pid)
    assert found is not None
    return found.started


async def test_a_stranger_that_got_the_number_of_a_dead_agent_is_gone_to_us_and_is_never_killed(
    world: LocalHarness, stranger: subprocess.Popen[bytes]
) -> None:
    handle = record(
        world, "c1", pid=stranger.pid, start_time=started(stranger.pid) - 1, boot_id=process_table.boot_id()
    )
    assert await world.engine.observe_all([handle]) == [Observation.GONE]
    await world.engine.release(handle)
    assert stranger.poll() is None


async def test_a_record_from_before_the_last_boot_is_gone_and_nobody_is_killed(
    world: LocalHarness, stranger: subprocess.Popen[bytes]
) -> None:
    handle = record(world, "c1", pid=stranger.pid, start_time=started(stranger.pid), boot_id="of another boot")
    assert await world.engine.observe_all([handle]) == [Observation.GONE]
    await world.engine.release(handle)
    assert stranger.poll() is None


async def test_a_torn_record_is_unknown_and_release_still_ends_what_carries_the_mark(world: LocalHarness) -> None:
    handle = await world.acquire()
    path = world.cluster_folder(handle.cluster) / "algo-1" / "agent.json"
    path.write_text('{"pid": 12')
    path.with_name("host.json").write_text('{"hosts": 7')
    nobody_knows = Handle(engine="local", cluster=handle.cluster)
    assert await world.engine.observe_all([nobody_knows]) == [Observation.UNKNOWN]
    await world.engine.release(nobody_knows)
    assert world.leftovers(handle.cluster) == []


async def test_a_handle_with_nonsense_in_it_is_unknown(world: LocalHarness) -> None:
    handle = await world.acquire()
    broken = msgspec.structs.replace(handle, hosts=(HostHandle(host="algo-1", data={"pid": "one"}),))
    assert await world.engine.observe_all([broken, handle]) == [Observation.UNKNOWN, Observation.RUNNING]


async def test_a_data_folder_that_is_missing_says_nothing_about_its_clusters(tmp_path: Path) -> None:
    engine = LocalHarness(tmp_path / "smx").engine
    shutil.rmtree(tmp_path / "smx")
    handle = Handle(engine="local", cluster="c1")
    assert await engine.observe_all([handle]) == [Observation.UNKNOWN]
    with pytest.raises(UnavailableError):
        await engine.find("c1")
    with pytest.raises(UnavailableError):
        await engine.release(handle)


async def test_dead_agents_do_not_stay_zombies(world: LocalHarness) -> None:
    others = set(psutil.Process().children())  # other tests may have left some
    handle = await world.acquire(world.request(2))
    for host in ("algo-1", "algo-2"):
        world.kill_agent(handle.cluster, host)

    async def all_are_reaped() -> bool:
        await world.engine.observe_all([handle])
        mine = set(psutil.Process().children()) - others
        return not [child for child in mine if child.status() == psutil.STATUS_ZOMBIE]

    await eventually(all_are_reaped, "no zombie is left")


async def test_the_end_of_a_killed_agent_is_explained_after_its_release(world: LocalHarness) -> None:
    handle, living = await world.acquire(), await world.acquire()
    world.kill_agent(handle.cluster, "algo-1")

    async def is_gone() -> bool:
        return await world.engine.observe_all([handle]) == [Observation.GONE]

    await eventually(is_gone, "the agent is gone")
    for _ in range(2):
        for one in (handle, living):
            await world.engine.release(one)
    assert "SIGKILL" in await world.engine.exit_reason(handle.cluster, "algo-1")
    assert await world.engine.exit_reason(living.cluster, "algo-1") == ""


async def test_an_agent_that_a_release_killed_during_an_outage_was_ended_by_no_other_program(
    world: LocalHarness,
) -> None:
    handle = await world.acquire()
    with world.outage(), pytest.raises(UnavailableError, match="cannot be recorded"):
        await world.engine.release(handle)
    await world.engine.release(handle)
    assert await world.engine.exit_reason(handle.cluster, "algo-1") == ""


async def test_only_this_user_can_read_what_a_host_keeps(world: LocalHarness) -> None:
    handle = await world.acquire()
    folder = world.cluster_folder(handle.cluster) / "algo-1"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder.parent.parent, folder.parent, folder)}
    assert set(modes.values()) == {0o700}
    assert stat.S_IMODE((folder / "agent.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "agent.sock").stat().st_mode) & 0o077 == 0


async def test_release_keeps_the_records_and_removes_what_only_a_living_host_needs(world: LocalHarness) -> None:
    handle = await world.acquire()
    folder = world.cluster_folder(handle.cluster) / "algo-1"
    async with AgentClient(world.engine, handle) as agent:
        job = await agent.run("print('kept')")
        await agent.wait_for_outcome(job)
    tree = folder / "code" / ("a" * 64) / "tree"
    tree.mkdir(parents=True)
    (tree / "train.py").write_text("pass")
    await world.engine.release(handle)
    names = {path.name for path in folder.iterdir()}
    assert {"spool", "agent.log", "host.json", "agent.json", "claim"} <= names
    assert names.isdisjoint({"ml", "tmp", "slots", "trash", "code", "agent.sock"})
    assert (folder / "spool" / job / "log").read_text() == "kept\n"


@pytest.mark.parametrize("launched", [True, False])
async def test_after_a_release_no_late_agent_can_start_in_the_folder(world: LocalHarness, launched: bool) -> None:
    request = world.request()
    steps = world.engine.acquire(request)
    handle = await anext(steps)
    if launched:
        async for step in steps:
            handle = step
    await steps.aclose()
    assert world.launch_counts(request.cluster) == ({"algo-1": 1} if launched else {})
    await world.engine.release(handle)
    plan = world.engine.plan(request)["hosts"]["algo-1"]["command"]
    late = await asyncio.create_subprocess_exec(*plan, "--ready-fd", "2", stderr=subprocess.DEVNULL)
    assert await asyncio.wait_for(late.wait(), 30) == 3


async def test_a_data_folder_deeper_than_a_socket_address_works(tmp_path: Path) -> None:
    world = LocalHarness(tmp_path / ("deep" * 30) / ("日本" * 15) / "smx")
    try:
        handle = await world.acquire()
        async with AgentClient(world.new_engine(), handle) as agent:
            assert (await agent.run_and_wait("print('deep')")).text == "deep\n"
    finally:
        await world.close()


async def test_a_release_removes_the_short_name_of_a_folder_whose_agent_was_killed(tmp_path: Path) -> None:
    world = LocalHarness(tmp_path / ("d" * 60) / "smx", isolate=False)
    try:
        handle = await world.acquire()
        folder = world.cluster_folder(handle.cluster) / "algo-1"
        link = Path((folder / "shortcut").read_text())
        world.kill_agent(handle.cluster, "algo-1")
        assert link.name in names(link.parent)
        await world.engine.release(handle)
        assert link.name not in names(link.parent)
        assert world.leftovers(handle.cluster) == []
    finally:
        await world.close()


async def test_variables_of_a_server_a_kernel_and_those_that_are_configured_stay_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {"JUPYTER_TOKEN": "t", "JUPYTERHUB_API_TOKEN": "t", "JPY_PARENT_PID": "1", "MY_COMPANY_KEY": "k"}
    hidden["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    for name, value in {**hidden, "VISIBLE": "yes"}.items():
        monkeypatch.setenv(name, value)
    world = LocalHarness(tmp_path / "smx", hidden_variables=["MY_COMPANY_KEY"])
    try:
        handle = await world.acquire()
        (agent_process,) = [process_scan.read_process(pid) for pid in process_scan.agents(handle.cluster).values()]
        assert agent_process is not None
        assert {line.split(b"=")[0].decode() for line in agent_process.environment}.isdisjoint(hidden)
        async with AgentClient(world.engine, handle) as agent:
            told = last_json(await agent.run_and_wait("import json, os; print(json.dumps(dict(os.environ)))"))
        assert isinstance(told, dict)
        assert told.keys().isdisjoint(hidden)
        assert told["VISIBLE"] == "yes"
        assert told["JUPYTER_SMX_HOST"] == f"{handle.cluster}/algo-1"
    finally:
        await world.close()


ACQUIRE = """
import asyncio, os, signal, sys
from pathlib import Path
from jupyter_smx.testing.local_harness import LocalHarness

async def main(folder, cluster, step):
    world, seen = LocalHarness(Path(folder)), 0
    async def die_at(step):
        for _ in range(step):
            await asyncio.sleep(0.004)
        os.kill(os.getpid(), signal.SIGKILL)
    asyncio.get_running_loop().create_task(die_at(step))
    await world.acquire(world.request(2, cluster=cluster))
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("step", [1, 4, 8, 16, 32, 64])
async def test_11_a_controller_that_is_killed_while_it_acquires_has_launched_once_when_the_next_one_is_done(
    world: LocalHarness, step: int
) -> None:
    request = world.request(2)
    environment = {**os.environ, "PYTHONPATH": str(Path(jupyter_smx.__file__).parents[1])}
    command = [sys.executable, "-c", ACQUIRE, str(world.folder), request.cluster, str(step)]
    first = await asyncio.create_subprocess_exec(*command, env=environment)
    assert await first.wait() == -signal.SIGKILL
    handle = await world.acquire(request)
    assert world.launch_counts(request.cluster) == {"algo-1": 1, "algo-2": 1}
    assert await world.engine.observe_all([handle]) == [Observation.RUNNING]
    async with AgentClient(world.engine, handle, "algo-2") as agent:
        assert (await agent.run_and_wait("print('carried on')")).text == "carried on\n"


def test_a_birth_that_an_agent_could_not_write_whole_is_completed_by_when_it_was_written(
    stranger: subprocess.Popen[bytes],
) -> None:
    found = process_table.read_process(stranger.pid)
    assert found is not None
    born = process_table.start_time(found)
    unknown = AgentProcess(pid=stranger.pid, start_time=0, boot_id="")
    assert complete_process(unknown, born + 1).is_alive()
    assert not complete_process(unknown, born - 1).is_alive()
    stranger.kill()
    stranger.wait()
    assert not complete_process(unknown, born + 1).is_alive()


def test_last_words_are_the_last_lines_and_survive_any_bytes(tmp_path: Path) -> None:
    folder = HostFolder(tmp_path)
    assert folder.log_tail() == ""
    folder.log.write_bytes(b"x" * 9000 + b"\n" + b"\xff one\n\n two \n")
    assert folder.log_tail().endswith("\ufffd one | two")
    folder.log.write_text("pip: --index-url https://me:secret@host/simple\n")
    assert "secret" not in folder.log_tail()


async def test_an_acquire_that_is_cancelled_ends_after_what_its_thread_writes(
    world: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free = threading.Event(), threading.Event()
    write = world.engine._prepare  # type: ignore[attr-defined]

    def write_late(request: ClusterRequest) -> Path:
        begun.set()
        free.wait(30)
        path: Path = write(request)
        return path

    monkeypatch.setattr(world.engine, "_prepare", write_late)
    request = world.request(1)
    acquire = asyncio.create_task(world.acquire(request))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        acquire.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    assert not acquire.done(), "a search now would find nothing, and its thread would write afterwards"
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await acquire
    handle = await world.engine.find(request.cluster)
    assert handle is not None
    await world.engine.release(handle)
    assert world.leftovers(request.cluster) == []


def test_what_cannot_be_removed_of_a_host_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostFolder(tmp_path / "algo-1")
    for name in ("ml", "tmp", "inputs"):
        (host.path / name / "files").mkdir(parents=True)
    (tmp_path / "group").mkdir()
    (tmp_path / "full/inside").mkdir(parents=True)
    groups = {"cpu": str(tmp_path / "group"), "memory": str(tmp_path / "full")}
    host.describe({"limits": {"groups": groups}})
    real = rmtree.remove

    def busy(path: str) -> None:
        if path == str(host.path / "ml"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        real(path)

    monkeypatch.setattr(rmtree, "remove", busy)
    said = host.sweep()
    assert sorted(names(host.path)) == ["host.json", "ml"]
    assert not (tmp_path / "group").exists()
    assert said.startswith(f"files of {host.path} could not be removed: ")
    assert f"busy: '{host.path}/ml'; control groups could not be removed: " in said


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_the_doctor_tries_out_which_isolation_hosts_have(tmp_path: Path) -> None:
    told = await LocalEngine(data_dir=str(tmp_path)).doctor()
    assert told["isolation"] in {"namespace", "variables"}
    assert told["isolation"] == "namespace" or told["reason"]
    assert not any(name.startswith("probe-") for name in names(tmp_path))


async def test_the_doctor_says_that_isolation_was_switched_off(tmp_path: Path) -> None:
    told = await LocalEngine(data_dir=str(tmp_path), isolate=False).doctor()
    assert told["isolation"] == "variables"
    assert "LocalEngine.isolate" in str(told["reason"])

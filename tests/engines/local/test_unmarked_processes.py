"""Processes of a job with a cleaned environment, after the sudden death of their agent: none survives its host."""

from __future__ import annotations

import os
import pty
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.isolation import host_traces
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.agent.system.resources import cgroup_limits
from jupyter_smx.controller_launch import DATA_DIR_VARIABLE
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.cgroup import processes
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_smx.model.records.cluster import Handle

PARENTS = cgroup_limits.find_parents()
DAEMON = """
import fcntl, os, pty, shutil, signal, subprocess, termios

def open_terminal():
    ours, theirs = pty.openpty()
    take = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    return dict(stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[ours], preexec_fn=take)

words = [shutil.which(word) or word for word in {words}]
subprocess.Popen(words, env={environment}, start_new_session=True, cwd={cwd!r}, **{streams})
print("started", flush=True)
signal.pause()
"""
QUIET = "dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)"
SAYS_NOTHING = {"environment": "{}", "cwd": None, "streams": QUIET}
LOGS = {"environment": "{'HOME': '/'}", "cwd": "/", "streams": "{}"}
WITH_A_PATH = {"environment": "{'PATH': '/bin'}", "cwd": None, "streams": QUIET}
ON_A_TERMINAL = {"environment": "{'HOME': '/'}", "cwd": "/", "streams": "open_terminal()"}
ELSEWHERE = {"environment": "{'HOME': '/'}", "cwd": "/", "streams": QUIET}
FORKED_TWICE = {**ELSEWHERE, "words": ["sh", "-c", "sleep SECONDS &"]}
PLAIN = {"isolate": False, "apply_limits": False}


def daemon_code(how: dict[str, object], seconds: str) -> str:
    """Write the code of a job that starts a daemon, itself or by a shell that ends at once."""
    given: object = how.get("words", ["sleep", "SECONDS"])
    assert isinstance(given, list)
    words = [word.replace("SECONDS", seconds) for word in given]
    return DAEMON.format(**{**how, "words": words})


def daemons(seconds: str) -> list[int]:
    return [seen.pid for seen in process_scan.processes() if seen.command.endswith(f"sleep {seconds}")]


@pytest.fixture
def seconds() -> Iterator[str]:
    """Give the word by which a daemon is found; it is killed at the end of the test."""
    word = f"7{secrets.randbelow(10**6)}.5"
    yield word
    for pid in daemons(word):
        os.kill(pid, signal.SIGKILL)


async def orphaned(world: LocalHarness, how: dict[str, object], seconds: str) -> Handle:
    """Let a job start a daemon, and kill everything of the host that carries its mark."""
    handle = await world.acquire()
    async with AgentClient(world.engine, handle) as client:
        job = await client.run(daemon_code(how, seconds))
        await client.wait_for_log(job, b"started")
    await eventually(lambda: len(daemons(seconds)) == 1, "the daemon runs")
    marked = [seen.pid for seen in process_scan.cluster_processes(handle.cluster)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # first all stand still: none ends the others
        for pid in marked:
            os.kill(pid, number)
    await eventually(lambda: not process_scan.cluster_processes(handle.cluster), "its host is dead")
    return handle


@pytest.mark.parametrize(
    "how",
    [SAYS_NOTHING, WITH_A_PATH, LOGS, ELSEWHERE, ON_A_TERMINAL, FORKED_TWICE],
    ids=["in the folder", "with a path", "writes to the log", "elsewhere", "on a terminal", "forked twice"],
)
async def test_a_daemon_without_a_mark_ends_with_its_host(tmp_path: Path, how: dict[str, object], seconds: str) -> None:
    world = LocalHarness(tmp_path / "smx", **PLAIN)
    handle = await orphaned(world, how, seconds)
    assert len(daemons(seconds)) == 1, "nothing else had ended it"
    await world.engine.release(handle)
    assert daemons(seconds) == []
    await world.close()


@pytest.mark.parametrize(
    "how", [ELSEWHERE, ON_A_TERMINAL, FORKED_TWICE], ids=["without a terminal", "on a terminal", "forked twice"]
)
async def test_a_daemon_without_a_mark_ends_with_its_agent_before_any_release(
    tmp_path: Path, how: dict[str, object], seconds: str
) -> None:
    world = LocalHarness(tmp_path / "smx", **PLAIN)
    handle = await world.acquire()
    async with AgentClient(world.engine, handle) as client:
        job = await client.run(daemon_code(how, seconds))
        await client.wait_for_log(job, b"started")
        world.kill_agent(handle.cluster, "algo-1")
    await eventually(lambda: daemons(seconds) == [], "it ended")
    await world.close()


@pytest.mark.parametrize("how", [ELSEWHERE, ON_A_TERMINAL], ids=["without a terminal", "on a terminal"])
async def test_a_daemon_ends_that_is_in_the_namespaces_of_its_host_alone(
    tmp_path: Path, how: dict[str, object], seconds: str
) -> None:
    world = LocalHarness(tmp_path / "smx", apply_limits=False)
    if (await world.engine.doctor())["isolation"] != "namespace":
        pytest.skip("no namespaces here")
    handle = await orphaned(world, how, seconds)
    assert len(daemons(seconds)) == 1, "nothing else had ended it"
    await world.engine.release(handle)
    assert daemons(seconds) == []
    await world.close()


@pytest.mark.skipif(not PARENTS.folders, reason=f"limits of jobs here: {PARENTS.description()}")
async def test_a_daemon_ends_that_is_in_the_control_group_of_its_host_alone(tmp_path: Path, seconds: str) -> None:
    world = LocalHarness(tmp_path / "smx", isolate=False)
    handle = await orphaned(world, ELSEWHERE, seconds)
    assert groups(world, handle)
    await world.engine.release(handle)
    assert (daemons(seconds), groups(world, handle)) == ([], [])
    await world.close()


def groups(world: LocalHarness, handle: Handle) -> list[Path]:
    name = cgroup_limits.group_name(os.fspath(world.folder), handle.cluster, "algo-1")
    return [folder / name for folder in PARENTS.folders.values() if (folder / name).exists()]


@pytest.mark.skipif(not PARENTS.folders, reason=f"limits of jobs here: {PARENTS.description()}")
async def test_empty_groups_go_at_the_next_launch_although_a_release_was_not_written_down(tmp_path: Path) -> None:
    world = LocalHarness(tmp_path / "smx", isolate=False)
    handle = await world.acquire()
    living = await world.acquire()
    assert groups(world, handle)
    kept = groups(world, living)
    world.kill_agent(handle.cluster, "algo-1")
    await eventually(lambda: not any(map(processes, groups(world, handle))), "the groups are empty")
    await world.acquire()
    assert groups(world, handle) == []
    assert groups(world, living) == kept != []
    await world.close()


# What belongs to a person


@contextmanager
def person(folder: Path, environment: dict[str, str], source: str, terminal: int | None = None) -> Iterator[int]:
    """Start a process that works in a host's folder without being the host's."""
    words = [sys.executable, "-c", f"import os, signal, sys\n{source}\nprint(1, flush=True)\nsignal.pause()"]
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stdin=terminal, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def found(folder: Path) -> set[int]:
    return host_traces.find_unmarked(host_traces.read_traces([os.fspath(folder)]), process_table.read_table(), {})


@pytest.mark.parametrize(
    "source",
    ["", "file = open('spool/job/log')", "file = open('notes', 'w')"],
    ids=["stands there", "reads a log", "writes a file of its own"],
)
def test_a_person_in_the_folder_of_a_host_is_left_alone(tmp_path: Path, source: str) -> None:
    (tmp_path / "spool" / "job").mkdir(parents=True)
    (tmp_path / "spool" / "job" / "log").touch()
    with person(tmp_path, {"HOME": "/"}, source) as pid:
        assert pid not in found(tmp_path)
    with person(tmp_path, {"HOME": "/"}, "file = open('spool/job/log', 'a')") as pid:
        assert found(tmp_path) == {pid}
    with person(tmp_path, {}, "") as pid:
        assert found(tmp_path) == {pid}
    with person(tmp_path.parent, {}, "") as pid:
        assert pid not in found(tmp_path)
    (tmp_path / "ml" / "code").mkdir(parents=True)
    with person(tmp_path / "ml" / "code", {"HOME": "/"}, "") as pid:
        assert found(tmp_path) == {pid}


async def test_another_controller_that_has_a_result_open_to_write_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LocalHarness(tmp_path / "smx", **PLAIN)
    monkeypatch.setenv(DATA_DIR_VARIABLE, os.fspath(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    handle = await world.acquire()
    spool = world.engine.spool_path(handle.cluster, "algo-1")
    opens = f"result = open({os.fspath(spool / 'result')!r}, 'w')"
    holds = f"lock = open({os.fspath(tmp_path / 'data' / 'controller.lock')!r}, 'w')"
    with person(tmp_path, {}, f"{opens}; {holds}") as controller, person(tmp_path, {}, opens) as job:
        await world.engine.release(handle)
        assert [process_table.read_process(pid) is not None for pid in (controller, job)] == [True, False]
    await world.close()


def test_a_person_with_a_terminal_is_left_alone(tmp_path: Path) -> None:
    for name in ("spool", "ml"):
        (tmp_path / name).mkdir()
    ours, theirs = pty.openpty()
    source = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nfile = open('spool/log', 'a')"
    source += "\nos.chdir('ml')"
    with person(tmp_path, {}, source, theirs) as pid:
        assert pid not in found(tmp_path)
    os.close(ours)
    os.close(theirs)


def test_where_everything_sees_the_folder_as_opt_ml_nothing_is_found_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ml").mkdir()
    monkeypatch.setattr(host_traces, "ML", os.fspath(tmp_path / "ml"))
    assert host_traces.read_traces([os.fspath(tmp_path)]).namespaces == ()
    assert found(tmp_path) == set()

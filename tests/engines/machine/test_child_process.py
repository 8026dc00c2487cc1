"""Processes of an event loop end, in whatever moment their caller is cancelled, and whatever they leave."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.engines.machine import child_process
from jupyter_smx.testing.eventually import eventually, eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes
# The grandchild is in a group of its own and holds the pipes, as the master that ssh leaves.
HOLDS_PIPES = "setsid sleep 300 & echo begun; sleep 300 & wait"
LEAVES_HOLDER = "setsid sleep 300 & echo begun"
TURNS = 12
"""Turns of the loop in which a start is over on any version of Python."""
LIMIT = 5.0
"""Seconds for what takes milliseconds, on a busy machine; what is wrong would take the minute of ``patience``."""


def commands_in(folder: Path) -> dict[int, str]:
    """Find the processes that work in a folder; those that have ended are not there."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if path.readlink() == folder and (command := (path.parent / "cmdline").read_bytes()):
                found[int(path.parent.name)] = command.replace(b"\0", b" ").decode().strip()
    return found


def in_group(pid: int) -> int:
    with suppress(ProcessLookupError):
        return os.getpgid(pid)
    return 0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder; what still works in it is killed at the end."""
    yield tmp_path.resolve()
    while left := commands_in(tmp_path.resolve()):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an end that waits for pipes show."""
    monkeypatch.setattr(child_process, "_END_WITHIN", 60.0)


async def start(folder: Path, script: str) -> asyncio.subprocess.Process:
    return await child_process.start("sh", "-c", script, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder)


async def communicate(folder: Path) -> None:
    process = await start(folder, HOLDS_PIPES)
    try:
        await process.communicate(b"x" * 1_000_000)  # more than a pipe holds, and nothing reads it
    finally:
        await child_process.end(process)


def check_that_only_holders_are_left(folder: Path) -> None:
    """Check it a moment later: the kernel ends grandchildren after the process that was waited for."""

    def others() -> list[str]:
        return [command for pid, command in commands_in(folder).items() if in_group(pid) != pid]

    eventually_blocking(lambda: not others(), "the group has ended")


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", range(TURNS))
async def test_a_caller_that_is_cancelled_before_in_or_after_the_start_is_done_at_once(
    folder: Path, count: int
) -> None:
    caller = asyncio.create_task(communicate(folder))
    await turns(count)
    began = time.monotonic()
    caller.cancel()
    await asyncio.wait({caller}, timeout=30)
    assert caller.cancelled()
    assert time.monotonic() - began < LIMIT
    check_that_only_holders_are_left(folder)


@pytest.mark.parametrize("count", range(TURNS))
def test_a_loop_that_ends_before_in_or_after_a_start_ends_at_once(folder: Path, count: int) -> None:
    async def leave() -> float:
        tasks.append(asyncio.create_task(communicate(folder)))
        await turns(count)
        return time.monotonic()

    tasks: list[asyncio.Task[None]] = []
    began = asyncio.run(leave())  # cancels all tasks, also those by which asyncio connects pipes
    assert time.monotonic() - began < LIMIT
    assert tasks[0].cancelled()
    check_that_only_holders_are_left(folder)


async def test_a_caller_that_is_cancelled_again_and_again_waits_for_the_end(folder: Path) -> None:
    caller = asyncio.create_task(communicate(folder))
    await eventually(lambda: "sleep 300" in commands_in(folder).values(), "the grandchild runs")
    while not caller.done():
        caller.cancel()
        await asyncio.sleep(0)
    assert caller.cancelled()
    check_that_only_holders_are_left(folder)


async def test_a_process_that_left_its_pipes_to_another_one_is_ended_and_keeps_its_code(folder: Path) -> None:
    process = await start(folder, f"{LEAVES_HOLDER}; exit 7")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    await eventually(lambda: process.returncode is not None, "the process has ended")
    began = time.monotonic()
    await child_process.end(process)
    assert time.monotonic() - began < LIMIT
    assert process.returncode == 7


@pytest.mark.parametrize("with_descendants", [False, True])
async def test_what_a_process_left_in_its_group_ends_if_the_caller_says_so(
    folder: Path, with_descendants: bool
) -> None:
    process = await start(folder, "sleep 300 >/dev/null 2>&1 </dev/null & exit 0")
    await eventually(lambda: process.returncode == 0, "the process has ended")
    await eventually(lambda: [*commands_in(folder).values()] == ["sleep 300"], "its child runs")
    await child_process.end(process, with_descendants=with_descendants)
    if with_descendants:
        await eventually(lambda: not commands_in(folder), "its child has ended")
    else:
        assert [*commands_in(folder).values()] == ["sleep 300"]


async def test_a_process_that_the_kernel_does_not_end_is_waited_for_no_longer_than_a_second(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = await start(folder, "exec sleep 300")
    killed: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda *words: killed.append(words))
        patch.setattr(child_process, "_END_WITHIN", 0.1)
        began = time.monotonic()
        await child_process.end(process)
    assert time.monotonic() - began < LIMIT
    assert killed == [(process.pid, signal.SIGKILL)]
    assert f"pid={process.pid} did not end" in caplog.text
    await child_process.end(process)
    assert process.returncode == -signal.SIGKILL


async def test_a_program_that_is_not_there_is_an_error_of_the_start(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await child_process.start(os.fspath(folder / "none"), stdout=PIPE)


async def test_pipes_that_cannot_be_connected_are_an_error_and_the_process_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_words: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    ignored: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", ignored.append)
        patch.setattr(asyncio.get_running_loop(), "connect_read_pipe", fail)
        with pytest.raises(OSError, match="Too many open files"):
            await start(folder, "exec sleep 300")
        gc.collect()
    await eventually(lambda: not commands_in(folder), "the process has ended")
    assert ignored == []

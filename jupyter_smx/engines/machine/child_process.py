"""Start a process of an event loop, read its lines, and end it with its group; no caller waits for it without end.

A process whose pipes are open in other processes has not ended for asyncio, such as ``ssh`` that left a master. And a
start that is cancelled while asyncio connects the pipes waits for them without end, before Python 3.14.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Coroutine, Generator

_log = logging.getLogger(__name__)
_PIECE = 65_536
_END_WITHIN = 1.0
"""Seconds to wait for a killed process; one that waits for a disk is then left to the kernel."""
_PIPES = (0, 1, 2)


async def start(*words: str, **options: Any) -> Process:
    """Start a process that leads a session and a group; ``options`` are those of ``create_subprocess_exec``.

    No process remains if the caller is cancelled meanwhile.

    :raises OSError: it cannot be started.
    """
    starting: asyncio.Task[Process] = _UncancellableTask(_create(words, options), loop=asyncio.get_running_loop())
    cancelled = await _wait_done(starting)
    if cancelled is None:
        return starting.result()
    if starting.exception() is None:
        await end(starting.result(), with_descendants=True)
    raise cancelled


async def end(process: Process, *, with_descendants: bool = False) -> None:
    """Kill the group of a process that runs, close its pipes and wait for its end, for up to a second.

    ``with_descendants`` kills what is left of the group also when the process itself has ended. A caller that is
    cancelled waits for the end, too.
    """
    if process.returncode is None or with_descendants:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]  # noqa: SLF001 - the pipes
    _close_pipes(transport)
    waiting = _UncancellableTask(process.wait(), loop=asyncio.get_running_loop())
    cancelled = await _wait_done(waiting, _END_WITHIN)
    if waiting.done():
        transport.close()  # not before the end: asyncio would not get the exit code
    else:
        asyncio.Task.cancel(waiting)
        _log.warning("pid=%d did not end within %g s after SIGKILL", process.pid, _END_WITHIN)
    if cancelled is not None:
        raise cancelled


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield the lines of a stream, of any length."""
    left = b""
    while piece := await stream.read(_PIECE):
        *whole, left = (left + piece).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        left = left[-_PIECE:]
    if left:
        yield left.decode(errors="replace")


class _UncancellableTask(asyncio.Task[Any]):
    """A task that continues when the loop cancels all tasks at its end; for a few turns of the loop."""

    def cancel(self, msg: Any = None) -> bool:
        del msg
        return False


def _uncancellable(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    return _UncancellableTask(work, loop=loop, **options)


async def _create(words: tuple[str, ...], options: dict[str, Any]) -> Process:
    """Create the process; the task in which asyncio connects its pipes is not cancelled with the loop's tasks."""
    creation = asyncio.create_subprocess_exec(*words, start_new_session=True, **options)
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    loop.set_task_factory(_uncancellable)
    try:
        awaited = creation.send(None)  # up to where it waits for that task
    finally:
        loop.set_task_factory(factory)
    return await _continue(creation, awaited)


@types.coroutine
def _continue(creation: Coroutine[Any, Any, Process], awaited: Any) -> Generator[Any, Any, Process]:
    """Continue a coroutine that was begun and now waits for ``awaited``; an error of that ends the process."""
    try:
        yield awaited
    except BaseException as error:
        # It kills the process, and then waits for its pipes: without end, before Python 3.14.
        with contextlib.closing(creation):
            creation.throw(error)
        raise
    process: Process = yield from creation
    return process


async def _wait_done(task: asyncio.Task[Any], timeout: float | None = None) -> asyncio.CancelledError | None:
    """Wait until a task is done, at most ``timeout`` seconds; returns what the caller was cancelled with meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        left = None if deadline is None else deadline - loop.time()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _close_pipes(transport: asyncio.SubprocessTransport) -> None:
    """Close this side of the pipes; bytes that the process did not read are dropped."""
    for number in _PIPES:
        pipe = transport.get_pipe_transport(number)
        if isinstance(pipe, asyncio.WriteTransport):
            if not pipe.is_closing() or pipe.get_write_buffer_size():  # a closed pipe has no abort
                pipe.abort()
        elif pipe is not None:
            pipe.close()

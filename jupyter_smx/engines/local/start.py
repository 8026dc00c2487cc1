"""Start one agent on this machine, from the fork until it listens or exits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.engines.machine.host_folder import HostFolder

_Result = TypeVar("_Result")

CLAIM_LOST = 3
"""Exit code of an agent whose folder another agent has."""
OPT_ML_TAKEN = 7
"""Exit code of an agent whose jobs would find the files of another host in the machine's ``/opt/ml``."""

_EXIT_TIMEOUT = 5.0
"""Seconds."""

Children = dict[int, "subprocess.Popen[bytes]"]
"""Agents that this process started and must wait for when they end, so that none stays a zombie."""


class AgentStart(NamedTuple):
    """Command, host and environment of an agent."""

    command: list[str]
    folder: HostFolder
    environment: Mapping[str, str]

    async def start_and_wait(self, children: Children) -> int | None:
        """Start the agent, put it among ``children``, wait until it listens; the exit code when it ended instead."""
        # The thread makes the pipe: when we are cancelled meanwhile the file object closes it, not we.
        child, listening = await run_to_end(self._start, children)
        with listening:
            if await _first_byte(listening.fileno()):
                return None
        # End of file: the agent closed the pipe without a report. It is about to exit, or its folder shows its state.
        try:
            return await asyncio.to_thread(child.wait, _EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None

    def _start(self, children: Children) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        listening, ready = os.pipe()
        try:
            log = os.open(self.folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                child = subprocess.Popen(
                    [*self.command, "--ready-fd", str(ready)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder.path,
                    env=dict(self.environment),
                    pass_fds=(ready,),
                    start_new_session=True,
                )
            finally:
                os.close(log)
        except OSError:
            os.close(listening)
            raise
        finally:
            os.close(ready)
        children[child.pid] = child
        return child, os.fdopen(listening, "rb", buffering=0)


async def run_to_end(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Run a function in a thread, and let no cancellation through before its end.

    A thread cannot be cancelled. What it writes or starts afterwards, no search would find and no release would end.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        while not thread.done():
            with suppress(asyncio.CancelledError):  # of one more, as at the end of the controller
                await asyncio.wait([thread])
        thread.exception()  # takes it, else asyncio would report it as never retrieved
        raise


async def _first_byte(descriptor: int) -> bytes:
    """Wait until a pipe has a byte; return nothing if its other end was closed."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, lambda: None if readable.done() else readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 1)


def format_exit(code: int) -> str:
    """Return how a process ended, from its exit code."""
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

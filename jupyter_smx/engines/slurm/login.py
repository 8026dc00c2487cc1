"""The machine on which Slurm's programs run, if it is this one: a shell here, without the variables of a job."""

from __future__ import annotations

import asyncio
import os
import socket as sockets
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from jupyter_smx.engines.machine import child_process
from jupyter_smx.engines.remote.machine import RUN_TIMEOUT, Completed, NoAnswerError, NotStartedError, RemoteMachine
from jupyter_smx.engines.slurm import commands
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_STREAM_LIMIT = 1 << 20
"""Bytes that the reader of a stream holds before the other side waits."""
_CONNECTED = b"+"
_ANSWER_WITHIN = 8.0
"""Seconds until a relay is connected; the controller cancels ``connect`` after ten."""
_ERROR_TAIL = 300


class LoginMachine(RemoteMachine, Protocol):
    """A machine on which Slurm's programs run."""

    async def relay(self, command: str, plain_command: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to the agent to which a command connects its input and output.

        ``command`` prints ``+`` when it is connected, ``plain_command`` nothing.

        :raises RefusedError, UnavailableError: as :meth:`run`, or it connects to nothing.
        """
        ...

    async def is_connected(self) -> bool:
        """Return True if a command needs no new connection."""
        ...

    async def close(self) -> None:
        """End the processes of streams, and connections."""
        ...


class LocalLogin:
    """This machine. ``variables`` are added to those of the controller, without those of a surrounding job.

    ``programs`` is the folder of Slurm's programs, "" for the PATH.
    """

    name = "this machine"

    def __init__(self, variables: Mapping[str, str], programs: str = "") -> None:
        self._variables = dict(variables)
        self._programs = programs
        self._relays: set[asyncio.Task[None]] = set()

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a line of a shell.

        :raises NotStartedError: this machine can start no process now.
        :raises NoAnswerError: it did not end within ``timeout`` seconds.
        """
        process = await self._start(command)
        try:
            output, errors = await asyncio.wait_for(process.communicate(data), timeout)
        except asyncio.TimeoutError:
            raise NoAnswerError(
                f"{commands.program_of(command)} gave no answer within {timeout:g} s.", transient=True
            ) from None
        finally:
            await child_process.end(process)
        return Completed(process.returncode or 0, output, errors.decode(errors="replace"))

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start a command whose pipes are used meanwhile; its error output is dropped."""
        process = await self._start(command, stderr=asyncio.subprocess.DEVNULL)
        try:
            yield process
        finally:
            await child_process.end(process)

    async def connect(self, socket: str) -> Streams:
        """Open a unix socket of this machine.

        :raises UnavailableError: nothing listens there.
        """
        try:
            return await asyncio.open_unix_connection(socket, limit=_STREAM_LIMIT)
        except OSError as problem:
            raise UnavailableError(f"Nothing listens at {socket} ({problem.strerror}).", transient=True) from problem

    async def relay(self, command: str, plain_command: str) -> Streams:
        """Open a stream over a process that lives as long as the stream.

        Its input is a socket: a pipe wakes this process for each page that Slurm has read, a socket after most of them.

        :raises UnavailableError: it ended, or gave no sign in time.
        """
        del plain_command
        async with AsyncExitStack() as undo:
            own_end, child_end = sockets.socketpair()
            with own_end, child_end:
                process = await self._start(command, stdin=child_end.fileno())
                undo.push_async_callback(child_process.end, process)
                _, writer = await asyncio.open_unix_connection(sock=own_end.dup())
            undo.callback(writer.transport.abort)
            if process.stdout is None or process.stderr is None:
                raise ValueError("the process has no pipes")
            errors = asyncio.get_running_loop().create_task(_read_tail(process.stderr))
            undo.callback(errors.cancel)
            try:
                first = await asyncio.wait_for(process.stdout.read(1), _ANSWER_WITHIN)
            except asyncio.TimeoutError:
                raise NoAnswerError(f"No agent answered within {_ANSWER_WITHIN:g} s.", transient=True) from None
            if first != _CONNECTED:
                raise UnavailableError(f"No agent listens there ({await errors}).", transient=True)
            cleanup = undo.pop_all()
        keeper = asyncio.get_running_loop().create_task(_keep(process, cleanup), name="slurm relay")
        self._relays.add(keeper)
        keeper.add_done_callback(self._relays.discard)
        return process.stdout, writer

    def shell_words(self, command: str) -> list[str]:
        """Run it in a shell here."""
        return ["sh", "-c", commands.environment(self._programs, self._variables) + command]

    async def is_connected(self) -> bool:
        """Return True: this machine needs no connection."""
        return True

    async def close(self) -> None:
        """End the processes of streams."""
        relays = [*self._relays]
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    async def _start(self, command: str, *, stdin: int = PIPE, stderr: int = PIPE) -> asyncio.subprocess.Process:
        left_out = set(commands.clean_environment(os.environ))
        inherited = {name: value for name, value in os.environ.items() if name not in left_out}
        environment = inherited | self._variables  # no other user may read them, as the words of a command
        line = commands.environment(self._programs, {}) + command
        try:
            return await child_process.start(
                "sh", "-c", line, stdin=stdin, stdout=PIPE, stderr=stderr, env=environment, limit=_STREAM_LIMIT
            )
        except OSError as error:
            raise NotStartedError(f"This machine can start no process ({error.strerror}).", transient=True) from error


async def _keep(process: asyncio.subprocess.Process, cleanup: AsyncExitStack) -> None:
    """Wait for the end of a stream's process, which comes with the end of either side."""
    async with cleanup:
        await process.wait()


async def _read_tail(stream: asyncio.StreamReader) -> str:
    tail = b""
    while piece := await stream.read(65_536):
        tail = (tail + piece)[-_ERROR_TAIL:]
    return " | ".join(line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip())

"""A session of ``ssh`` whose input and output are used while its command runs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine import child_process
from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.ssh import commands, failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.engines.ssh.client import SshClient
    from jupyter_smx.engines.ssh.failures import SessionEnd

_PIECE = 65_536
_END_WITHIN = 5.0
"""Seconds between the end of the output and the end of the process."""
_TAIL = 8192
"""Bytes of the error output that are kept, from its end."""


class LongSession:
    """A process of ``ssh``; its error output is read to the end, since a pipe that is full stops the command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("the process has no pipes")
        self.reader, self.writer = process.stdout, process.stdin
        self._errors = asyncio.get_running_loop().create_task(_read_tail(process.stderr))
        process.stderr = None  # two readers of one pipe are an error

    @classmethod
    async def start(cls, ssh: SshClient, words: Sequence[str]) -> LongSession:
        """Start it.

        :raises RefusedError, UnavailableError: as :meth:`SshClient.start`.
        """
        return cls(await ssh.start(words))

    async def wait_opened(self) -> SessionEnd | None:
        """Read the output up to what :func:`commands.announced` prints; returns how it ended if it ended before."""
        try:
            while line := await self.reader.readline():
                if line.endswith(commands.SESSION_OPENED):
                    return None
        except ValueError:  # a line of more than a megabyte: no startup file prints it
            return failures.SessionEnd.COMMAND
        return failures.session_end(Completed(await self.process.wait(), b"", await self.errors()))

    async def wait_end(self) -> int | None:
        """Return the exit code of a session whose output ended; None if the process still runs a moment later."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.process.wait(), _END_WITHIN)
        return self.process.returncode

    async def errors(self) -> str:
        """Wait for the end of the error output, and return its last lines."""
        return (await asyncio.shield(self._errors)).decode(errors="replace").strip()

    async def close(self) -> None:
        """End it, and wait until its processes here have exited."""
        try:
            await child_process.end(self.process)
        finally:
            self._errors.cancel()


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while piece := await stream.read(_PIECE):
        tail = (tail + piece)[-_TAIL:]
    return tail

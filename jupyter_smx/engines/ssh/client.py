"""Run one process of ``ssh``: with a time limit, and never left behind by a caller that is cancelled."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine import child_process
from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.ssh import commands, failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.engines.ssh.commands import SshOptions

STREAM_LIMIT = 1024 * 1024
"""Bytes that the reader of a stream holds before the other side waits."""


class SshClient:
    """Starts processes of ``ssh`` with the options of one machine."""

    def __init__(self, options: SshOptions) -> None:
        self.options = options

    async def start(
        self, words: Sequence[str], *, stdin: int = PIPE, stdout: int = PIPE, stderr: int = PIPE
    ) -> asyncio.subprocess.Process:
        """Start a process, in a session of its own: a key that a person presses does not reach it.

        :raises RefusedError: the program does not exist.
        :raises UnavailableError: this machine can start no process now.
        """
        try:
            return await child_process.start(
                *words,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=self._environment(),
                limit=STREAM_LIMIT,
            )
        except OSError as error:
            raise failures.not_started(self.options.program, error) from error

    async def run(self, words: Sequence[str], data: bytes = b"", timeout: float = 10.0) -> Completed:
        """Run a process to its end.

        :raises asyncio.TimeoutError: it did not end within ``timeout`` seconds, and was killed.
        """
        process = await self.start(words)
        try:
            output, errors = await asyncio.wait_for(process.communicate(data), timeout)
        finally:
            await child_process.end(process)
        return Completed(process.returncode or 0, output, errors.decode(errors="replace"))

    async def run_logged(self, words: Sequence[str], log: Path, timeout: float) -> Completed:
        """Run a process that may leave one in the background, which keeps the log open; the errors are the log's.

        :raises asyncio.TimeoutError: as :meth:`run`.
        """
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = await self.start(words, stdin=DEVNULL, stdout=DEVNULL, stderr=descriptor)
        finally:
            os.close(descriptor)
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
        finally:
            await child_process.end(process)
        return Completed(code, b"", _read(log))

    def _environment(self) -> Mapping[str, str]:
        return commands.environment(self.options, os.environ)


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")

"""The machine on which Slurm's programs run, if ssh reaches it: a session for each command, and none for a stream."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.engines.remote.account import Account
from jupyter_smx.engines.remote.machine import RUN_TIMEOUT

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.engines.ssh.engine import SshEngine

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PYTHON_CURE = "Set c.SlurmEngine.python to the path of Python 3.8 or newer on the login machine and the nodes."


class SshLogin:
    """A login machine behind the connection of the SSH engine, whose configuration counts.

    ``python`` is one there. ``environment`` begins each line, as :func:`commands.environment` returns it.
    """

    def __init__(self, engine: SshEngine, alias: str, python: str, environment: str = "") -> None:
        self.name = alias
        self._engine = engine
        self._environment = environment
        self._connection = engine.machine(alias)
        self._account = Account(self._connection, "", python, python_cure=_PYTHON_CURE, data_dir=Path(engine.data_dir))

    def check_installed(self) -> None:
        """Check that there is an ssh client.

        :raises RefusedError: there is none.
        """
        self._engine.check_installed()

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a line of a shell, as :meth:`SshConnection.run`."""
        return await self._connection.run(self._line(command), data, timeout)

    def open(self, command: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Start a command, as :meth:`SshConnection.open`."""
        return self._connection.open(self._line(command))

    async def connect(self, socket: str) -> Streams:
        """Open a stream to an agent, as :meth:`SshConnection.connect`."""
        return await self._connection.connect(socket)

    async def relay(self, command: str, plain_command: str) -> Streams:
        """Open a stream over a socket that becomes the command, which ssh forwards where sshd allows that.

        :raises RefusedError, UnavailableError: as :meth:`run`, or no agent answers.
        """
        del command
        answer = await self._account.ask("bridge", {"words": ["/bin/sh", "-c", self._environment + plain_command]})
        try:
            return await self._connection.connect(str(answer["socket"]))
        finally:
            await self._connection.disconnect(str(answer["socket"]))

    def shell_words(self, command: str) -> list[str]:
        """Return the command that runs another one there in a terminal."""
        return self._connection.shell_words(self._line(command))

    async def is_connected(self) -> bool:
        """Return True if a master connection runs; a command opens one otherwise."""
        return await self._connection.check_master()

    async def close(self) -> None:
        """Close the connection."""
        await self._engine.close()

    def _line(self, command: str) -> str:
        """Run a line in a POSIX shell: the account's own one may be tcsh."""
        return f"exec sh -c {shlex.quote(self._environment + command)}"

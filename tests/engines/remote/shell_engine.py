"""A small complete engine over the layer for remote engines: each machine is a folder that a shell starts in.

``python -m pytest tests/engines/remote`` runs the contract of engines on it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from traitlets import Dict, Unicode

from jupyter_smx.engines.machine import child_process
from jupyter_smx.engines.remote.machine import RUN_TIMEOUT, Completed, MachineOptions, NoAnswerError, NotStartedError
from jupyter_smx.engines.remote.remote_engine import RemoteEngine
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


class ShellMachine:
    """A machine that a shell with another home folder stands for; its file ``off`` says that it cannot be reached."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self._home = home

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a command in a shell of the machine."""
        async with self.open(command) as process:
            try:
                output, errors = await asyncio.wait_for(process.communicate(data), timeout)
            except asyncio.TimeoutError:
                raise NoAnswerError(f"{self.name} did not answer within {timeout:g} s.", transient=True) from None
        return Completed(process.returncode or 0, output, errors.decode(errors="replace"))

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start a shell of the machine; it is killed where its output is not read to the end."""
        if (self._home / "off").exists():
            raise NotStartedError(f"{self.name} cannot be reached.", transient=True)
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, "HOME": os.fspath(self._home)}
        process = await child_process.start("sh", "-c", command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        try:
            yield process
        finally:
            await child_process.end(process)

    async def connect(self, socket: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open the socket, which this kernel has, too."""
        if (self._home / "off").exists():
            raise UnavailableError(f"{self.name} cannot be reached.", transient=True)
        try:
            return await asyncio.open_unix_connection(socket)
        except OSError as problem:
            raise UnavailableError(f"Nothing listens on {self.name} ({problem}).", transient=True) from problem

    def shell_words(self, command: str) -> list[str]:
        """Run it here."""
        return ["sh", "-c", command]


class ShellEngine(RemoteEngine):
    """Runs hosts on machines that are folders of this one."""

    name: ClassVar[str] = "shell"
    homes = Dict(value_trait=Unicode(), key_trait=Unicode(), help="Home folder of each machine, by its name.").tag(
        config=True
    )

    def machine_options(self) -> Mapping[str, MachineOptions]:
        """Let each home have room for 16 hosts."""
        return dict.fromkeys(self.homes, MachineOptions(slots=16))

    def machine(self, name: str) -> ShellMachine:
        """Give the shell of a home."""
        return ShellMachine(name, Path(self.homes[name]))

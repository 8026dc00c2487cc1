"""One node of an allocation as a machine: a command there is a step of the allocation, beside its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.engines.remote.machine import RUN_TIMEOUT
from jupyter_smx.engines.slurm import commands, reasons

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.engines.slurm.login import LoginMachine

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PLAIN = "plain"
_START_TIMEOUT = 10.0
"""Seconds that Slurm may need to start a step, beside those of the command."""


class NodeMachine:
    """A node of job ``job``; ``component`` is its number in a heterogeneous job.

    ``relay_command`` returns the command that connects its input and output to a socket of the node; with another word
    it prints nothing of its own.
    """

    def __init__(
        self, login: LoginMachine, job: str, component: int | None, node: str, relay_command: Callable[..., str]
    ) -> None:
        self.name = node
        self._login = login
        self._job = job
        self._component = component
        self._relay_command = relay_command

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a command in a step of its own.

        :raises NotStartedError: Slurm starts no step there now, as after the end of the allocation.
        :raises NoAnswerError: it gave no answer within ``timeout`` seconds.
        """
        done = await self._login.run(self._step(command), data, timeout + _START_TIMEOUT)
        error = reasons.step_error(self.name, done)
        if error is not None:
            raise error
        return done

    def open(self, command: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Start a command in a step whose pipes are used meanwhile."""
        return self._login.open(self._step(command))

    async def connect(self, socket: str) -> Streams:
        """Open a stream to a socket of the node.

        :raises UnavailableError: nothing listens there, or the allocation has ended.
        """
        words = (self._relay_command(socket), self._relay_command(socket, _PLAIN))
        return await self._login.relay(*(self._step(command) for command in words))

    def shell_words(self, command: str) -> list[str]:
        """Return the command that runs another one there in a terminal."""
        return self._login.shell_words(commands.on_node(self._job, self._component, self.name, command, pty=True))

    def _step(self, command: str) -> str:
        return commands.on_node(self._job, self._component, self.name, command)

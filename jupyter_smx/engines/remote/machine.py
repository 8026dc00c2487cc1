"""The two things that a remote engine can do with a machine: run a command there, and open a stream to a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from jupyter_smx.model.errors import SmxError

RUN_TIMEOUT = 20.0
"""Seconds that a command on a machine may take, unless the caller says more."""


class Completed(NamedTuple):
    """How a command ended: its exit code, what it printed, and the text of its errors."""

    code: int
    output: bytes
    errors: str


class NotStartedError(UnavailableError):
    """A machine was not reached, and nothing was run there: the same may be run on another one."""


class NoSessionError(NotStartedError):
    """A machine answers and allows no further session now; nothing was run there."""


class NoAnswerError(UnavailableError):
    """A machine gave no answer to a command that it may have run, or may run still."""


class RemoteMachine(Protocol):
    """The way to one account of one machine. A command is a line for a POSIX shell, which starts anywhere."""

    @property
    def name(self) -> str:
        """Give the name by which the user calls the machine."""
        ...

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a command with ``data`` on its standard input, and wait for its end.

        :raises RefusedError: the machine cannot be used as it is configured; says the cure.
        :raises NotStartedError: it cannot be reached now, and nothing was run there.
        :raises NoSessionError: it answers, but runs nothing more now.
        :raises NoAnswerError: it did not answer within ``timeout`` seconds, or the way there ended before.
        """
        ...

    def open(self, command: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Start a command with pipes; it ends with the context.

        :raises RefusedError, UnavailableError: as :meth:`run`.
        """
        ...

    async def connect(self, socket: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a stream to a unix socket on the machine.

        :raises RefusedError, UnavailableError: as :meth:`run`, or nothing listens there now.
        """
        ...

    def shell_words(self, command: str) -> list[str]:
        """Give the words of a command that runs another one there in a terminal."""
        ...


def as_unavailable(error: BaseException) -> BaseException:
    """Give the refusal of a machine that has hosts as an outage: they are there still when a person has mended it."""
    if not isinstance(error, RefusedError):
        return error
    words = {"field": error.field, "value": error.value, "rule": error.rule, "cure": error.cure}
    return UnavailableError(error.message, **words, transient=True)


def as_no_room(error: SmxError) -> RefusedError:
    """Give the error of a machine that was not reached as that of an engine without room: the job waits its turn."""
    words = {"field": error.field, "value": error.value, "rule": error.rule, "cure": error.cure}
    return RefusedError(error.message, **words, transient=True)


class MachineOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the configuration says of one machine; everything has a default that the machine itself decides.

    ``slots`` is the number of hosts that it has room for (0: one for each CPU). ``cpus``, ``memory_gib`` and ``gpus``
    are those of the instance type that is named as the machine; ``gpus`` are the names of devices for
    ``CUDA_VISIBLE_DEVICES``. ``python`` is the interpreter of the agent and of jobs that name none. ``folder`` is
    where hosts have their folders. ``environments`` are shell lines by name, which ``--python NAME`` runs before the
    interpreter. ``address`` is where the other machines reach this one.
    """

    slots: int = 0
    cpus: int = 0
    memory_gib: float = 0.0
    gpus: tuple[str, ...] = ()
    python: str = ""
    folder: str = ""
    address: str = ""
    environments: dict[str, str] = {}

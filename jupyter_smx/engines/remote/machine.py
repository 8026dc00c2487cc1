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
"""Default time limit in seconds of a command on a machine."""


class Completed(NamedTuple):
    """Result of a command: its exit code, its output, and the text of its errors."""

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
    """The connection to one account of one machine. A command is a line for a POSIX shell, which starts anywhere."""

    @property
    def name(self) -> str:
        """Return the user's name of the machine."""
        ...

    async def run(self, command: str, data: bytes = b"", timeout: float = RUN_TIMEOUT) -> Completed:
        """Run a command with ``data`` on its standard input, and wait for its end.

        :raises RefusedError: the machine cannot be used as it is configured; the error has the cure.
        :raises NotStartedError: it cannot be reached now, and nothing was run there.
        :raises NoSessionError: it answers, but allows no more sessions now.
        :raises NoAnswerError: it did not answer within ``timeout`` seconds, or the connection ended before.
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
        """Return the command that runs another one there in a terminal."""
        ...


def as_unavailable(error: BaseException) -> BaseException:
    """Turn the refusal of a machine that has hosts into an outage: they still exist after a person has repaired it."""
    if not isinstance(error, RefusedError):
        return error
    words = {"field": error.field, "value": error.value, "rule": error.rule, "cure": error.cure}
    return UnavailableError(error.message, **words, transient=True)


def as_no_room(error: SmxError) -> RefusedError:
    """Turn the error of an unreachable machine into that of an engine without room, so that the job is queued."""
    words = {"field": error.field, "value": error.value, "rule": error.rule, "cure": error.cure}
    return RefusedError(error.message, **words, transient=True)


class MachineOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of one machine; every value has a default that the machine itself determines.

    ``slots`` is the maximum number of hosts (0: one for each CPU). ``cpus``, ``memory_gib`` and ``gpus`` are those of
    the instance type with the machine's name; ``gpus`` are the names of devices for ``CUDA_VISIBLE_DEVICES``.
    ``python`` is the interpreter of the agent, and of jobs that name none. ``folder`` is the parent of the hosts'
    folders. ``environments`` are shell lines by name, which ``--python NAME`` runs before the interpreter. ``address``
    is the machine's address for the other machines.
    """

    slots: int = 0
    cpus: int = 0
    memory_gib: float = 0.0
    gpus: tuple[str, ...] = ()
    python: str = ""
    folder: str = ""
    address: str = ""
    environments: dict[str, str] = {}

"""The declaration of a subcommand, and the surface that it runs on: a notebook or a terminal."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from jupyter_smx.kernel.text.tables import Page

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jupyter_smx.kernel.client.client import ArrayDetail, Client
    from jupyter_smx.model.records.job import Job

Completion = Literal["", "job", "live_job", "pool", "engine", "status", "file", "subcommand"]
"""Source of the values of an argument for completion."""
SurfaceName = Literal["notebook", "terminal"]
SUCCESS = 0
FAILURE = 1
NO_CONTROLLER = 4
"""Exit code of a terminal if no controller runs."""
_INSERTED_HELP = "{name} or $name takes it from a variable"


class Argument(Struct, frozen=True, kw_only=True):
    """One argument: a word, an option with a value, or a flag (no ``metavar``)."""

    name: str
    help: str
    metavar: str = ""
    spellings: tuple[str, ...] = ()
    """For an option: the short spelling first. A word has none."""
    required: Literal["always", "terminal", "never"] = "never"
    """In a notebook a missing JOB is the last job of this kernel, so some are required in a terminal only."""
    default: str = ""
    completion: Completion = ""
    choices: tuple[str, ...] = ()
    """The values that it takes, if they are few; for help and completion."""
    many: bool = False
    """A word that may be repeated."""

    def usage(self, *, terminal: bool) -> str:
        """Return its part of the usage, as ``[--tail N]``."""
        words = f"{self.spellings[0]} {self.metavar}".rstrip() if self.spellings else self.metavar
        if self.many:
            words = f"{words} …"
        return words if self.is_required(terminal=terminal) else f"[{words}]"

    def describe(self, *, terminal: bool) -> str:
        """Return its help; a notebook takes a JOB from a variable, too, where a terminal has the shell's."""
        is_job = self.completion in ("job", "live_job")
        return f"{self.help}; {_INSERTED_HELP}" if is_job and not terminal else self.help

    def is_required(self, *, terminal: bool) -> bool:
        """Return True if the argument cannot be left out."""
        return self.required == "always" or (terminal and self.required == "terminal")


class Result(Struct, frozen=True):
    """What a subcommand returns: a record for ``--json``, a page for people, and the exit code of a terminal.

    A subcommand that streams writes by itself and returns None.
    """

    record: object
    page: Page
    code: int = SUCCESS


class Surface(Protocol):
    """A notebook or a terminal."""

    prog: str
    """``%smx`` or ``jupyter smx``."""

    @property
    def client(self) -> Client:
        """The controller's client."""

    @property
    def json(self) -> bool:
        """True if streams write JSON lines."""

    def resolve_ref(self, word: str) -> str:
        """Return the reference of a word; without a word the default job of this surface, or ""."""

    def write(self, text: str) -> None:
        """Write a piece of a stream."""

    def log_output(self, job_name: str, /) -> AbstractContextManager[Callable[[str], None]]:
        """Return the context in which the log of a job is written, piece by piece."""

    def write_row(self, row: Mapping[str, object]) -> None:
        """Write a JSON line of a stream."""

    def info(self, text: str) -> None:
        """Write a sentence that is no part of a stream."""

    def quiet(self, job_id: str) -> Callable[[], None] | None:
        """Return what to call while a followed log is quiet."""

    def still_running(self, job_name: str) -> Result | None:
        """Report that Ctrl-C ended the command and not the job."""

    def rerun(self, found: Job | ArrayDetail, submitted_at: float, *, detach: bool) -> Result | None:
        """Submit a job or all tasks of an array again, and follow them if the surface does so."""


class Subcommand(Struct, frozen=True):
    """One row of the table; ``run`` is None if each surface that has the subcommand runs it in a way of its own."""

    name: str
    help: str
    run: Callable[[Namespace, Surface], Result | None] | None
    arguments: tuple[Argument, ...] = ()
    only: SurfaceName | None = None
    """The one surface that has it; None if both have it."""
    reason: str = ""
    """Why the other surface does not have it: a sentence."""
    cure: str = ""
    """A sentence on what to use there instead."""
    synopsis: str = ""
    """The usage, if the arguments alone do not show it."""

    def usage(self, *, terminal: bool) -> str:
        """Return what follows the name: ``[JOB] [-f]``."""
        return self.synopsis or " ".join(argument.usage(terminal=terminal) for argument in self.arguments)

    def is_on(self, surface: SurfaceName) -> bool:
        """Return True if a surface has this subcommand."""
        return self.only in (None, surface)


JOB_HELP = "ID, name, or the beginning of one; default the newest"
JOB = Argument(name="job", metavar="JOB", help=JOB_HELP, completion="job")
POOL = Argument(
    name="pool", metavar="POOL", help="ID, name, or the beginning of one", required="always", completion="pool"
)

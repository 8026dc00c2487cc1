"""Run the shared subcommands in a terminal: text, or JSON with ``--json``, and an exit code."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from jupyter_smx.cli import conventions
from jupyter_smx.cli.conventions import PROG
from jupyter_smx.cli.subcommand import CliContext, TerminalSubcommand
from jupyter_smx.cli.wait_reason import wait_reporter
from jupyter_smx.kernel.failures.exceptions import still_running_message
from jupyter_smx.kernel.subcommands.declaration import Result

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from jupyter_smx.kernel.client.client import ArrayDetail, Client
    from jupyter_smx.kernel.subcommands.declaration import Subcommand
    from jupyter_smx.model.records.job import Job


class TerminalSurface:
    """A terminal; ``code`` is the exit code of a command that printed by itself."""

    prog = PROG

    def __init__(self, context: CliContext) -> None:
        self._context = context
        self.code = conventions.SUCCESS

    @property
    def client(self) -> Client:
        """The controller's client."""
        return self._context.client

    @property
    def json(self) -> bool:
        """True with ``--json``."""
        return self._context.output.json

    def resolve_ref(self, word: str) -> str:
        """Return the word unchanged: a terminal has no variables, and so no job in one."""
        return word

    def write(self, text: str) -> None:
        """Write a piece of a log; JSON lines of events are the answer itself."""
        self._context.output.log(text)

    def log_output(self, _job_name: str) -> AbstractContextManager[Callable[[str], None]]:
        """Return what writes a log: a terminal shows all of it."""
        return nullcontext(self.write)

    def write_row(self, row: Mapping[str, object]) -> None:
        """Write a JSON line on stdout."""
        self._context.output.write_line(row)

    def info(self, text: str) -> None:
        """Write a sentence on stderr."""
        self._context.output.info(text)

    def quiet(self, job_id: str) -> Callable[[], None]:
        """Return what reports on stderr what a job waits for."""
        return wait_reporter(self._context, job_id)

    def still_running(self, job_name: str) -> None:
        """Report that the job continues, and exit with the code of Ctrl-C."""
        self._context.output.info(still_running_message(job_name))
        self.code = conventions.INTERRUPTED

    def rerun(self, found: Job | ArrayDetail, submitted_at: float, *, detach: bool) -> None:
        """Submit a job or all tasks of an array again and follow them to their end, unless ``detach``."""
        from jupyter_smx.cli.commands.run import rerun_job_or_array  # noqa: PLC0415 - it imports what jobs are made of

        self.code = rerun_job_or_array(found, submitted_at, self._context, detach=detach)


def terminal_subcommand(row: Subcommand) -> TerminalSubcommand:
    """Make the terminal's form of a subcommand that both surfaces run in the same way."""
    return TerminalSubcommand(row, partial(_run, row))


def _run(row: Subcommand, found: Namespace, context: CliContext) -> int:
    surface = TerminalSurface(context)
    result = row.run(found, surface) if row.run else None
    if not isinstance(result, Result):
        return surface.code
    context.output.show(result.record, result.page[0])
    return result.code

"""Run the subcommands of ``%smx`` in a notebook: pages are shown rich, streams are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from msgspec import json

from jupyter_smx.kernel.client.array_rerun import rerun_request
from jupyter_smx.kernel.failures.exceptions import StillRunning
from jupyter_smx.kernel.logs.cell_log import CellLog, open_cell_log, write
from jupyter_smx.kernel.subcommands import table
from jupyter_smx.kernel.subcommands.table import HELP
from jupyter_smx.kernel.text.pages import text_page

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from jupyter_smx.kernel.client.array_rerun import ArrayRerun
    from jupyter_smx.kernel.client.client import ArrayDetail, Client
    from jupyter_smx.kernel.options.defaults import Defaults
    from jupyter_smx.kernel.text.tables import Page
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

PROG = "%smx"


class NotebookSurface:
    """A kernel as a surface: the client, the screen, references, and resubmission."""

    prog = PROG
    json = False

    def __init__(
        self,
        client: Client,
        show: Callable[[str, str], None],
        resolve_ref: Callable[[str], str],
        submit: Callable[[JobSpec | ArrayRerun, bool], object],
    ) -> None:
        self.client = client
        self.show = show
        self._resolve_ref = resolve_ref
        self._submit = submit

    def resolve_ref(self, word: str) -> str:
        """Return the job of a notebook variable; for no word the last job of this kernel."""
        return self._resolve_ref(word)

    def write(self, text: str) -> None:
        """Print a piece of a stream."""
        write(text)

    def log_output(self, job_name: str) -> CellLog:
        """Return the context in which a log is printed: a cell shows the first and the last lines of a long one."""
        return open_cell_log(job_name)

    def write_row(self, row: Mapping[str, object]) -> None:
        """Print a JSON line."""
        write(f"{json.encode(row).decode()}\n")

    def info(self, text: str) -> None:
        """Print a sentence below a stream."""
        write(f"{text}\n")

    def quiet(self, job_id: str) -> None:
        """Report nothing while a log is quiet: the card does."""

    def still_running(self, job_name: str) -> NoReturn:
        """Raise StillRunning: the job continues.

        :raises StillRunning: always.
        """
        raise StillRunning(job_name) from None

    def rerun(self, found: Job | ArrayDetail, submitted_at: float, *, detach: bool) -> None:
        """Submit a job or all tasks of an array again, under a card of its own."""
        self._submit(rerun_request(self.client, found, submitted_at), detach)


def run(words: list[str], surface: NotebookSurface, defaults: Defaults) -> None:
    """Run one subcommand; no words show the manual.

    :raises ValidationError: there is no such subcommand, or its arguments are invalid.
    :raises SmxError: an error of the controller.
    """
    name, *arguments = words or ("help",)
    page = _run_row("help" if name in HELP else name, arguments, surface, defaults)
    if page is not None:
        surface.show(*page)


def _run_row(name: str, arguments: list[str], surface: NotebookSurface, defaults: Defaults) -> Page | None:
    row = table.find_row(name, PROG, "notebook")
    parser = table.parser_of(row, PROG, terminal=False)
    if set(arguments) & set(HELP):
        return text_page(parser.format_help())
    found = parser.read(arguments)
    if row.run is None:
        return _OWN_WAYS[name](found, defaults)
    result = row.run(found, surface)
    return None if result is None else result.page


def _help(found: Namespace, _: Defaults) -> Page:
    """Return the manual, or the page of one subcommand."""
    if not found.subcommand:
        return text_page(manual())
    row = table.find_row(found.subcommand, PROG, "notebook")
    return text_page(table.parser_of(row, PROG, terminal=False).format_help())


def _config(found: Namespace, defaults: Defaults) -> Page:
    """Set default options, and return all of them."""
    defaults.set_options(list(found.assignments))
    return defaults.page()


_OWN_WAYS: Mapping[str, Callable[[Namespace, Defaults], Page]] = {"config": _config, "help": _help}


def manual() -> str:
    """Write the page that lists the subcommands."""
    lines = table.format_rows(PROG, table.rows_on("notebook"), terminal=False)
    return "\n".join(
        ["Manage jobs and warm pools.", "", *lines, "", f"`{PROG} SUBCOMMAND --help` shows its arguments."]
    )

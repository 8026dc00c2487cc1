"""Run the subcommands of ``%smx`` in a notebook: pages are shown rich, streams are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from msgspec import json

from jupyter_smx.kernel.failures.exceptions import StillRunning
from jupyter_smx.kernel.handles.job import write
from jupyter_smx.kernel.subcommands.table import HELP, NOTEBOOK_ONLY, TABLE, format_rows, parser_of
from jupyter_smx.kernel.text.pages import text_page
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.rerun_spec import spec_for_rerun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.options.defaults import Defaults
    from jupyter_smx.kernel.text.pages import Page
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec

PROG = "%smx"
NAMES = (*TABLE, *NOTEBOOK_ONLY)
_CONFIG = ("config", "[OPTION=VALUE …]", "show or set default options for this kernel, e.g. keep_alive=10m")


class NotebookSurface:
    """A kernel: the client, the screen, the meaning of a word, and what submits a job again."""

    prog = PROG
    json = False

    def __init__(
        self,
        client: Client,
        show: Callable[[str, str], None],
        resolve_ref: Callable[[str], str],
        submit: Callable[[JobSpec, bool], object],
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

    def write_row(self, row: Mapping[str, object]) -> None:
        """Print a JSON line."""
        write(f"{json.encode(row).decode()}\n")

    def quiet(self, job_id: str) -> None:
        """Report nothing while a log is quiet: the card does."""

    def still_running(self, job_name: str) -> NoReturn:
        """Raise what says that the job goes on.

        :raises StillRunning: always.
        """
        raise StillRunning(job_name) from None

    def rerun(self, job: Job, submitted_at: float, *, detach: bool) -> None:
        """Submit a job again, under a card of its own."""
        self._submit(spec_for_rerun(job, submitted_at), detach)


def run(words: list[str], surface: NotebookSurface, defaults: Defaults) -> None:
    """Run one subcommand; no words show the manual.

    :raises ValidationError: there is no such subcommand, or its arguments are not what it takes.
    :raises SmxError: what the controller answers.
    """
    if not words or words[0] in (*HELP, "help"):
        surface.show(*text_page(manual()))
        return
    name, *arguments = words
    if name == "config" and not set(arguments) & set(HELP):
        defaults.set_options(arguments)
        surface.show(*defaults.page())
        return
    surface_page = _run_row(name, arguments, surface)
    if surface_page is not None:
        surface.show(*surface_page)


def _run_row(name: str, arguments: list[str], surface: NotebookSurface) -> Page | None:
    row = TABLE.get(name)
    if row is None:
        if name in NOTEBOOK_ONLY:
            return text_page(manual())
        raise ValidationError(
            f"{PROG}: {name!r} is not a subcommand.",
            field="line",
            value=name,
            cure=suggest_names(name, NAMES) or f"There are {', '.join(NAMES)}.",
        )
    parser = parser_of(row, PROG, terminal=False)
    if set(arguments) & set(HELP):
        return text_page(parser.format_help())
    result = row.run(parser.read(arguments), surface)
    return None if result is None else result.page


def manual() -> str:
    """Write the page that lists the subcommands."""
    rows = [(row.name, row.usage(terminal=False), row.help) for row in TABLE.values()]
    lines = format_rows(PROG, [*rows, _CONFIG])
    return "\n".join(
        ["Manage jobs and warm pools.", "", *lines, "", f"`{PROG} SUBCOMMAND --help` shows its arguments."]
    )

"""The differences of two jobs, as a page and as an object that displays itself."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from jupyter_smx.kernel.client import job_refs
from jupyter_smx.kernel.text.pages import text_page
from jupyter_smx.kernel.text.tables import Page, table_page
from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.records.comparison import Comparison, compare
from jupyter_smx.model.records.summary import base_name_of

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.model.records.job import Job

_PAGE = 200
_PAGES = 25


class Diff(Comparison, frozen=True, kw_only=True):
    """A comparison of two jobs that a notebook and a terminal can show."""

    def __str__(self) -> str:
        """Return the page as text."""
        return diff_page(self)[0]

    def _repr_html_(self) -> str:
        return diff_page(self)[1]


def difference(before: Job, after: Job) -> Diff:
    """Compare two jobs."""
    return Diff(**asdict(compare(before, after)))


def diff_by_ref(client: Client, ref: str, other: str = "") -> Diff:
    """Return the differences of a job and a later one; with one job, those from the run before it.

    :raises ValidationError: there is no reference, or it is a whole array.
    :raises ResourceNotFoundError: there is no such job, or no run before it.
    """
    if not ref:
        raise ValidationError(
            "diff: the name of a job is missing.",
            field="job",
            value="",
            rule="A job is named by its name, its ID, or the start of either.",
            cure="`%smx jobs` lists them.",
        )
    job = job_refs.resolve_job(client, ref)
    if other:
        return difference(job, job_refs.resolve_job(client, other))
    return difference(previous_run(client, job), job)


def previous_run(client: Client, job: Job) -> Job:
    """Find the run of the same base name before a job.

    :raises ResourceNotFoundError: it was the first, or the one before was deleted.
    """
    name, last = base_name_of(job), job.id
    for _ in range(_PAGES):
        page = client.jobs(_PAGE, before=last)
        found = next((row for row in page if row.base_name == name), None)
        if found is not None:
            return client.job(found.id)
        if len(page) < _PAGE:
            break
        last = page[-1].id
    raise ResourceNotFoundError(
        f"{job.name} has no previous run of {name}.",
        field="job",
        value=job.name,
        rule="Without a second job, diff uses the previous job with the same base name.",
        cure="Name two jobs to compare any two.",
    )


def diff_page(diff: Diff) -> Page:
    """Show it: the sentence, a table of what differs, and the code."""
    pages = [text_page(f"{diff.before} → {diff.after}\n{diff.sentence}")]
    if diff.changes:
        rows = [
            (change.section, change.name, _dash_if_none(change.before), _dash_if_none(change.after))
            for change in diff.changes
        ]
        pages.append(table_page(("SECTION", "NAME", "BEFORE", "AFTER"), rows))
    if diff.code:
        lines = "\n".join(_highlight(line) for line in diff.code)
        pages.append(("\n".join(diff.code), f"<pre>{lines}</pre>"))
    if diff.unknown:
        pages.append(text_page("\n".join(diff.unknown)))
    return "\n\n".join(text for text, _ in pages), "".join(html for _, html in pages)


def _highlight(line: str) -> str:
    kind = {"+": "ins", "-": "del"}.get(line[:1], "") if not line.startswith(("+++", "---")) else ""
    shown = escape(line)
    return f'<{kind} style="text-decoration:none">{shown}</{kind}>' if kind else shown


def _dash_if_none(value: str | None) -> str:
    return "–" if value is None else value

"""The card under a cell: the state of a job at one moment, as a MIME bundle for saved notebooks, too."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jupyter_smx.agent.system.files.host_layout import RESULT
from jupyter_smx.kernel.failures.exceptions import failure_of
from jupyter_smx.kernel.text.formats import (
    format_expected_duration,
    format_metrics,
    format_progress,
    format_queue_position,
    format_usage,
    progress_bar,
)
from jupyter_smx.kernel.text.pages import format_dollars
from jupyter_smx.model.options.table import ROWS
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.records.lost_variables import COMPLETED_BUT, format_loss, lost_variables_of
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.status import REUSE_MESSAGE, SecondaryStatus, Status, is_final, message_of
from jupyter_smx.model.text import format_duration, format_moment, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job

MIME = "application/vnd.jupyter-smx.card+json"

_LONGEST_FAILURE = 1024
"""Characters, as in SageMaker's ``FailureReason``."""

_MARKS = {
    Status.IN_PROGRESS: "●",
    Status.STOPPING: "●",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.STOPPED: "■",
}


class Card(Struct, frozen=True, kw_only=True):
    """Snapshot of a job at ``at`` (seconds since the epoch), from its summary and a few texts.

    ``sent``, ``received`` and ``files`` are bytes by name. It contains no source, no path and no value of a variable.
    """

    id: str
    name: str
    at: float
    summary: JobSummary
    submitted_at: float
    why: str = ""
    failure: str = ""
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    files: dict[str, int] = {}
    tail: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Return True if the job has its verdict."""
        return is_final(self.summary.secondary_status)

    def bundle(self) -> dict[str, Any]:
        """Return the MIME bundle: live for our extension, correct HTML for other front ends, a line of text."""
        return {
            MIME: msgspec.json.decode(msgspec.json.encode(self)),
            "text/html": self.html(),
            "text/plain": self.line(),
        }

    def line(self) -> str:
        """Format it in one line."""
        said = (self._state(), self._progress(), format_metrics(self.summary), self.summary.instances)
        parts = (f"{self._mark()} {self.name}", *said, self._other_engine(), self.failure or self._wait() or self.why)
        return " · ".join(part for part in parts if part)

    def html(self, trend: Sequence[float] | None = None) -> str:
        """Write the snapshot as HTML without scripts; everything that came from outside is escaped.

        ``trend`` has the newest CPU figures in percent, the last one last, for a card that is drawn again while the job
        runs. Its moment is the time of the day. None: the HTML is kept, and read in another place and time zone.
        """
        words = (self._state(), self.summary.instances, self._other_engine(), self._cost())
        facts = " · ".join(escape(text) for text in words if text)
        rows = [f"<b>{escape(self._mark())} {escape(self.name)}</b> · {facts}"]
        known = (self._progress(), format_metrics(self.summary, most=8))
        rows.append(" · ".join(escape(text) for text in known if text))
        rows.append(escape(self._usage(trend)))
        rows += [escape(text) for text in (self._start(), self._variables(), self._files())]
        rows = [row for row in rows if row]
        if self.failure:
            rows.append(f"<b>{escape(self.failure)}</b>")
        if self.tail:
            rows.append(f"<pre>{escape(chr(10).join(self.tail))}</pre>")
        rows.append(f"<small>{escape(self._moment(is_kept=trend is None))}</small>")
        body = "".join(f"<div>{row}</div>" for row in rows)
        return f'<div class="jp-smx-card" role="group" aria-label="Job {escape(self.name)}">{body}</div>'

    def _usage(self, trend: Sequence[float] | None) -> str:
        """Format what the job uses now, or the most that it used; "" on the stored card of a running job."""
        if self.is_final:
            return format_usage(self.summary.peak, prefix="peak ")
        return "" if trend is None else format_usage(self.summary.usage, trend=trend)

    def _moment(self, *, is_kept: bool) -> str:
        words = "Ended at" if self.is_final else "Still running at"
        until = self._until()
        return f"{words} {format_moment(until, zone=True) if is_kept else format_moment(until, self.at)}."

    def _other_engine(self) -> str:
        return "" if self.summary.engine == ROWS["engine"].default else self.summary.engine

    def _mark(self) -> str:
        return _MARKS[self.summary.status]

    def _until(self) -> float:
        ended_at = self.summary.ended_at
        return self.at if ended_at is None else ended_at

    def _state(self) -> str:
        summary = self.summary
        in_progress = summary.status is Status.IN_PROGRESS
        word = summary.secondary_status.value if in_progress else summary.status.value
        took = format_duration(max(0.0, self._until() - self.submitted_at))
        again = f", attempt {summary.attempt} of {summary.attempts}" if summary.attempt > 1 else ""
        expected = format_expected_duration(summary)
        return " ".join(part for part in (word, "for" if in_progress else "after", took, expected) if part) + again

    def _cost(self) -> str:
        words = format_dollars(self.summary.cost) if self.summary.cost else ""
        return words if self.is_final or not words else f"{words} so far"

    def _progress(self) -> str:
        drawn = progress_bar(self.summary)
        return f"{drawn} {format_progress(self.summary)}".strip()

    def _start(self) -> str:
        seconds = self.summary.first_line_seconds
        if not self.why:
            return "" if self.is_final else self.summary.message
        if seconds is None:
            return " ".join(part for part in (self.why, self._wait()) if part)
        said = f"{self.why} Time to first line: {format_duration(seconds)}."
        return f"{said} {self._wait()}".rstrip()

    def _wait(self) -> str:
        """Return what a job with hosts waits for: hosts that are not up yet or do not answer, space on a disk."""
        state, message = self.summary.secondary_status, self.summary.message
        is_usual = message in (message_of(state), REUSE_MESSAGE)
        return "" if state is SecondaryStatus.PENDING or self.is_final or is_usual else message

    def _variables(self) -> str:
        both = (("sent", self.sent), ("received", self.received))
        return " · ".join(f"{word}: {_format_sizes(sizes)}" for word, sizes in both if sizes)

    def _files(self) -> str:
        return f"files: {_format_sizes(self.files)}" if self.files else ""


def card_of(job: Job, at: float, *, news: JobSummary | None = None, tail: tuple[str, ...] = ()) -> Card:
    """Create the snapshot of a record at a moment; pure.

    ``news`` is the controller's newest summary, with progress and queue position, which records lack.
    """
    summary = summary_of(job)
    if news is not None and not is_final(job.state):
        known = ("queue_position", "progress", "metrics", "expectation", "expected_start_at", "usage")
        summary = msgspec.structs.replace(summary, **{name: getattr(news, name) for name in known})
    if news is not None and news.status is summary.status:
        summary = msgspec.structs.replace(summary, cost=news.cost)
    if summary.queue_position:
        words = f"Waiting for capacity, {format_queue_position(summary, at)}."
        summary = msgspec.structs.replace(summary, message=words)
    failure = failure_of(job)
    return Card(
        id=job.id,
        name=job.name,
        at=at,
        summary=summary,
        submitted_at=job.spec.submitted_at or job.created_at,
        why=job.why.sentence if job.why else "",
        failure=(str(failure) if failure else _loss(job))[:_LONGEST_FAILURE],
        sent=_sent_sizes(job),
        received=job.received,
        files=_output_sizes(job),
        tail=tail,
    )


def _loss(job: Job) -> str:
    """Return the variables that a completed job lost, and why; "" if it lost none."""
    said = format_loss(lost_variables_of(job)) if job.status() is Status.COMPLETED else ""
    return f"{COMPLETED_BUT}{said}" if said else ""


def _sent_sizes(job: Job) -> dict[str, int]:
    """Return the sizes of sent data: variables, and the folder of code, which has no name here."""
    spec = job.spec
    code = {"source_dir": spec.source_dir.size} if spec.source_dir else {}
    return code | (spec.send.sizes if spec.send else {})


def _output_sizes(job: Job) -> dict[str, int]:
    """Sum the files of each output, and leave the received variables to their own row."""
    found: dict[str, int] = {}
    for artifact in job.artifacts:
        if artifact.name != RESULT:
            name = "/".join(artifact.name.split("/")[:2])
            found[name] = found.get(name, 0) + artifact.size
    return found


def _format_sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {format_size(size)}" for name, size in sizes.items())

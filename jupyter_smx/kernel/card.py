"""The card under a cell: what is known of the job at one moment, as a MIME bundle that stays true when it is saved."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jupyter_smx.kernel.failures import JobFailed, failure_of
from jupyter_smx.kernel.why import start_seconds
from jupyter_smx.model import duration
from jupyter_smx.model.status import Status, is_final, message_of

if TYPE_CHECKING:
    from jupyter_smx.model.job import Job

MIME = "application/vnd.jupyter-smx.card+json"

_MARKS = {
    Status.IN_PROGRESS: "●",
    Status.STOPPING: "●",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.STOPPED: "■",
}


class Card(Struct, frozen=True, kw_only=True):
    """One snapshot: the job's id and what was known of it at ``at`` (seconds since the epoch).

    Durations are seconds, sizes are bytes. It holds no source, no path and no value of a variable.
    """

    id: str
    name: str
    kind: str
    at: float
    final: bool
    status: str
    secondary_status: str
    message: str
    instances: str
    engine: str
    created_at: float
    ended_at: float | None = None
    start: str = ""
    why: str = ""
    first_line_seconds: float | None = None
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    artifacts: dict[str, int] = {}
    failure: str = ""
    tail: tuple[str, ...] = ()

    def bundle(self) -> dict[str, Any]:
        """Give the MIME bundle: live for our extension, truthful HTML for everybody else, a line of text."""
        return {
            MIME: msgspec.json.decode(msgspec.json.encode(self)),
            "text/html": self.html(),
            "text/plain": self.line(),
        }

    def line(self) -> str:
        """Say it in one line."""
        parts = [f"{self._mark()} {self.name}", self._state(), self.instances]
        if self.failure:
            parts.append(self.failure)
        elif self.why:
            parts.append(self.why)
        return " · ".join(parts)

    def html(self) -> str:
        """Write the snapshot as HTML without scripts; everything that came from outside is escaped."""
        facts = " · ".join(escape(text) for text in (self._state(), self.instances, self.engine))
        rows = [f"<b>{escape(self._mark())} {escape(self.name)}</b> · {facts}"]
        rows += [escape(text) for text in (self._start(), self._variables(), self._files()) if text]
        if self.failure:
            rows.append(f"<b>{escape(self.failure)}</b>")
        if self.tail:
            rows.append(f"<pre>{escape(chr(10).join(self.tail))}</pre>")
        said = "Ended" if self.final else "Still going when this was written,"
        when = self.ended_at if self.final and self.ended_at else self.at
        rows.append(f"<small>{said} {escape(_moment(when))}. Job {escape(self.id)}</small>")
        body = "".join(f"<div>{row}</div>" for row in rows)
        return f'<div class="jp-smx-card" role="group" aria-label="Job {escape(self.name)}">{body}</div>'

    def _mark(self) -> str:
        return _MARKS[Status(self.status)]

    def _state(self) -> str:
        in_progress = self.status == Status.IN_PROGRESS.value
        word = self.secondary_status if in_progress else self.status
        until = self.ended_at if self.final and self.ended_at else self.at
        how_long = duration.words(max(0.0, until - self.created_at))
        return f"{word} {'for' if in_progress else 'after'} {how_long}"

    def _start(self) -> str:
        if not self.why:
            return "" if self.final else self.message
        if self.first_line_seconds is None:
            return self.why
        return f"{self.why} First line after {duration.words(self.first_line_seconds)}."

    def _variables(self) -> str:
        both = (("sent", self.sent), ("received", self.received))
        return " · ".join(f"{word}: {_sizes(sizes)}" for word, sizes in both if sizes)

    def _files(self) -> str:
        return f"files: {_sizes(self.artifacts)}" if self.artifacts else ""


def card_of(job: Job, at: float, *, queue_position: int | None = None, tail: tuple[str, ...] = ()) -> Card:
    """Take the snapshot of a record at a moment; pure."""
    failure = failure_of(job)
    message = job.transitions[-1].status_message if job.transitions else ""
    message = message or message_of(job.state)
    if queue_position:
        message = f"Waiting for room, number {queue_position} in the queue."
    return Card(
        id=job.id,
        name=job.name,
        kind=job.spec.kind,
        at=at,
        final=is_final(job.state),
        status=job.status().value,
        secondary_status=job.state.value,
        message=message,
        instances=job.spec.instances(),
        engine=job.spec.engine,
        created_at=job.spec.submitted_at or job.created_at,
        ended_at=job.ended_at,
        start=job.why.start if job.why else "",
        why=job.why.sentence if job.why else "",
        first_line_seconds=start_seconds(job),
        sent=job.spec.send.sizes if job.spec.send else {},
        received=job.received,
        artifacts=_named_sizes(job),
        failure=_failure_words(failure),
        tail=tail,
    )


def size_words(size: int) -> str:
    """Write a size for people, in decimal units: ``812 B``, ``1.2 MB``."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - decimal units
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _failure_words(failure: Exception | None) -> str:
    if failure is None:
        return ""
    words = str(failure)
    return words if not isinstance(failure, JobFailed) else words[:1024]


def _named_sizes(job: Job) -> dict[str, int]:
    """Sum the files of each output, and leave the received variables to their own row."""
    found: dict[str, int] = {}
    for artifact in job.artifacts:
        if artifact.name != "result.pkl":
            name = "/".join(artifact.name.split("/")[:2])
            found[name] = found.get(name, 0) + artifact.size
    return found


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {size_words(size)}" for name, size in sizes.items())


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))

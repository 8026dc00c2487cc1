"""Record on a job since when its hosts do not answer, and remove that when they do; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model import redaction
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.status import message_of
from jupyter_smx.model.text import format_duration, format_moment
from jupyter_smx.policy.lifecycle import transitions

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

PREFIX = "Its hosts are not reachable since "
_END = ": "
"""Separates the time from the reason; times do not contain it."""


def is_noted(job: Job) -> bool:
    """Return True if the record says that the hosts do not answer."""
    return transitions.remark_of(job).startswith(PREFIX)


def format_unreachable(reason: str, since: float, now: float) -> str:
    """Format since when hosts do not answer, and why; times are in seconds since the epoch."""
    return redaction.redact_text(f"{PREFIX}{format_moment(since, now)}{_END}{reason}")


def silent_error(host: str, seconds: float, reason: str = "", cure: str = "") -> UnavailableError:
    """Return the error of a host that has not answered for ``seconds``; 0 if unknown.

    ``reason`` is a clause, "" if unknown; ``cure`` is a sentence.
    """
    what = f"has not answered for {format_duration(round(seconds))}" if seconds else "does not answer"
    why = f": {reason}" if reason else ""
    return UnavailableError(f"Host {host} {what}{why}.", field="host", value=host, cure=cure, transient=True)


def note_unreachable(job: Job, reason: str, since: float, now: float) -> Job:
    """Record since when the hosts of a job do not answer, and why, as its status and as a note on its start.

    ``since`` and ``now`` are seconds since the epoch. A recorded time stays: an earlier controller may have written it.
    Return the same record if nothing changes.
    """
    before = transitions.remark_of(job)
    moment = before.removeprefix(PREFIX).partition(_END)[0] if is_noted(job) else format_moment(since, now)
    sentence = redaction.redact_text(f"{PREFIX}{moment}{_END}{reason}")
    return job if sentence == before else _with_notes(transitions.remark(job, sentence), (sentence,))


def note_reachable(job: Job, remark: str) -> Job:
    """Take back what :func:`note_unreachable` wrote; ``remark`` is the status before it, if that is known."""
    return _with_notes(transitions.remark(job, remark or message_of(job.state)), ())


def _with_notes(job: Job, notes: tuple[str, ...]) -> Job:
    if job.why is None:
        return job
    others = tuple(note for note in job.why.notes if not note.startswith(PREFIX))
    return replace(job, why=replace(job.why, notes=(*notes, *others)))

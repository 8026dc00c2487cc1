"""The card of an array: one line and a row of marks for all its tasks, still correct in a saved notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.model.spec.array import ArraySummary, format_counts, task_status
from jupyter_smx.model.status import Status
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.job import JobSummary

_STATE_LABELS = {"p": "pending", "r": "running", "c": "completed", "f": "failed", "s": "stopped"}
_MARKS = {"p": "▢", "r": "▨", "c": "▣", "f": "✗", "s": "■"}
_MAX_MARKS = 200
"""Maximum marks on a card; further tasks have none, but are counted in the line."""
_FAILURES = 3
"""Failed tasks that a card names."""


class ArrayCard(Struct, frozen=True, kw_only=True):
    """Snapshot of an array at ``at`` (seconds since the epoch).

    ``states`` has a letter for each task in order: p(ending), r(unning), c(ompleted), f(ailed), s(topped).
    ``failures`` are sentences about the first failed tasks. Like a job's card it contains no source, no path and no
    value of a variable; readers without support for arrays find ``id`` and ``name`` as on a job's.
    """

    id: str
    name: str
    at: float
    array: ArraySummary
    states: str = ""
    failures: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Return True if every task that was not deleted has its verdict."""
        return not self.array.counts.remaining_count()

    def bundle(self) -> dict[str, Any]:
        """Return the MIME bundle: live for our extension, correct HTML for other front ends, a line of text."""
        return {
            MIME: msgspec.json.decode(msgspec.json.encode(self)),
            "text/html": self.html(),
            "text/plain": self.line(),
        }

    def line(self) -> str:
        """Format it in one line, as ``sweep lr: 4 of 12 done, 1 failed, 2 running``."""
        took = format_duration(max(0.0, self.at - self.array.created_at))
        return f"{self._mark()} {self.array.title or self.name}: {format_counts(self.array)} · {took} · {self.name}"

    def html(self) -> str:
        """Write the snapshot as HTML without scripts; everything that came from outside is escaped."""
        more = len(self.states) - _MAX_MARKS
        marks = "".join(
            f'<span role="listitem" title="{words}" aria-label="{words}">{_MARKS[state]}</span>'
            for words, state in (
                (self._task_title(index), state) for index, state in enumerate(self.states[:_MAX_MARKS])
            )
        )
        label = escape(f"Tasks of {self.name}")
        rows = [
            f"<b>{escape(self.line())}</b>",
            f'<span role="list" aria-label="{label}">{marks}</span>{f" and {more} more" if more > 0 else ""}',
            *(escape(sentence) for sentence in self.failures),
        ]
        body = "".join(f"<div>{row}</div>" for row in rows)
        return f'<div class="jp-smx-card" role="group" aria-label="Array {escape(self.name)}">{body}</div>'

    def _task_title(self, index: int) -> str:
        return f"task {index}: {_STATE_LABELS[self.states[index]]}"

    def _mark(self) -> str:
        if not self.is_final:
            return "●"
        counts = self.array.counts
        return "✗" if counts.failed else "■" if counts.stopped else "✓"


def array_card_of(array: ArraySummary, tasks: Iterable[JobSummary], at: float) -> ArrayCard:
    """Create the snapshot of an array at a moment; pure. Tasks without a summary count as waiting."""
    states = ["p"] * array.size
    failures: list[str] = []
    for task in tasks:
        if task.array is None:
            continue
        states[task.array.index] = task_status(task.secondary_status)[0]
        if task.status is Status.FAILED and len(failures) < _FAILURES:
            failures.append(f"{' · '.join(part for part in (task.name, task.array.label, task.message) if part)}")
    return ArrayCard(id=array.id, name=array.name, at=at, array=array, states="".join(states), failures=tuple(failures))

"""Parse the log of one host piece by piece, and report progress and metrics at any moment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from jupyter_smx.model.request_texts import decode_text
from jupyter_smx.model.results.progress import MAX_METRICS, Progress
from jupyter_smx.policy.log_parsers import frameworks, generic, tqdm
from jupyter_smx.policy.log_parsers.line_splitter import MAX_LINE, LineSplitter, strip_escapes
from jupyter_smx.policy.log_parsers.observations import COUNT, AnnouncedTotals
from jupyter_smx.policy.log_parsers.progress_state import (
    ProgressState,
    apply_observation,
    apply_partial_line,
    progress_of,
    step_of,
)
from jupyter_smx.policy.log_parsers.series import Series
from jupyter_smx.policy.log_parsers.step_rate import Pace, step_count, update_pace
from jupyter_smx.policy.log_parsers.user_regex import Patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.policy.log_parsers.observations import LineObservation

_DIALECTS = (
    (frameworks.KERAS_HINTS, frameworks.read_keras),
    (frameworks.RICH_HINTS, frameworks.read_rich),
    (frameworks.HUGGINGFACE_HINTS, frameworks.read_huggingface),
    (frameworks.BOOSTING_HINTS, frameworks.read_boosting),
    (generic.HINTS, generic.read),
)
_HINTS = tuple(dict.fromkeys([*tqdm.HINTS, *(hint for hints, _ in _DIALECTS for hint in hints)]))
_COUNT = re.compile(COUNT)
_EPOCHS = frozenset({"epochs", "epoch", "num_epochs", "n_epochs", "numepochs", "max_epochs", "num_train_epochs"})
_ROUNDS = frozenset({"num_round", "num_rounds", "num_boost_round", "n_estimators", "num_iterations"})


class ReaderState(Struct):
    """State with which a new process can continue to read: bounded in size for any log.

    ``cursor`` is the offset after the last byte that was read, ``skipped`` counts bytes that were skipped.
    """

    cursor: int = 0
    skipped: int = 0
    start: bytes = b""
    standing: ProgressState = field(default_factory=ProgressState)
    pace: Pace = field(default_factory=Pace)
    series: dict[str, Series] = {}
    off: dict[str, str] = {}


class Reader:
    """One log. ``metrics`` are the user's regexes by name.

    ``clock`` returns the CPU seconds of the calling thread. The same bytes lead to the same state, whatever their
    chunks.
    """

    def __init__(
        self,
        metrics: Mapping[str, str],
        announced: AnnouncedTotals,
        clock: Callable[[], float],
        state: ReaderState | None = None,
    ) -> None:
        self.state = state or ReaderState()
        self._own = frozenset(metrics)
        self._totals = announced
        self._patterns = Patterns(metrics, clock, self.state.off)
        self._splitter = LineSplitter(self.state.start)

    def feed(self, data: bytes, at: float) -> None:
        """Read the next bytes of the log, which arrived at ``at`` (seconds since the epoch)."""
        self._patterns.reset_budget()
        head = self._splitter.start + data[:MAX_LINE]
        hints = tuple(hint for hint in _HINTS if hint in data or hint in head)
        if hints or self._patterns:
            for line in self._splitter.lines(data):
                self._read_line(line, hints, at)
        else:
            # No line of these bytes can matter except the last one, which may be incomplete.
            for _ in self._splitter.lines(data[max(0, _last_end(data)) :]):
                pass
        self.state.start = self._splitter.start
        self.state.cursor += len(data)

    def skip(self, count: int) -> None:
        """Skip the next ``count`` bytes of the log, with their content."""
        # The next bytes are the rest of some line: a full line buffer takes no more of it, and it is not parsed.
        self.state.start = self._splitter.start = bytes(MAX_LINE)
        self.state.cursor += count
        self.state.skipped += count

    def close(self, at: float) -> None:
        """Take the last line in although it has no end: nothing follows it."""
        if self._splitter.start:
            line, self._splitter.start = self._splitter.start, b""
            self.state.start = b""
            self._read_line(line, _HINTS, at)

    def progress(self, at: float) -> Progress | None:
        """Return the progress of the job, including the line that is being written."""
        state = self.state.standing
        found = _parse_partial_line(*strip_escapes(self._splitter.start)) if self._splitter.start else None
        if found is not None:
            state = apply_partial_line(state, found, self._totals, at)
        return progress_of(state, self._totals)

    def _read_line(self, line: bytes, hints: tuple[bytes, ...], at: float) -> None:
        hinted = False
        for hint in hints:
            if hint in line:
                hinted = True
                break
        if not (hinted or self._patterns):
            return
        text, ups = strip_escapes(line)
        found = _parse_line(text, ups) if hinted else None
        if found is not None:
            self.state.standing = apply_observation(self.state.standing, found, self._totals, at)
        step = found.step if found is not None and found.step is not None else step_of(self.state.standing)
        values = self._patterns.search(text) if self._patterns else []
        if found is not None:
            # What the user defined under a name is what the user means by it.
            values += [pair for pair in found.values if pair[0] not in self._own]
        count = step_count(values, found.counted if found is not None else None)
        if count is not None:
            self.state.pace = update_pace(self.state.pace, count, at)
        redrawn = found is not None and found.counter is not None
        for name, number in values:
            series = self._series(name)
            if series is not None:
                series.add(step, at, number, redrawn=redrawn)

    def _series(self, name: str) -> Series | None:
        found = self.state.series.get(name)
        if found is None:
            # Room is kept for what the user defined.
            kept = 0 if name in self._own else len(self._own - self.state.series.keys())
            if len(self.state.series) + kept >= MAX_METRICS:
                return None
            found = self.state.series[name] = Series()
        return found


def announced_totals(hyperparameters: Mapping[str, str]) -> AnnouncedTotals:
    """Read how many epochs or rounds a job will have from its hyperparameters, where one is called so."""
    counts = {
        name.replace("-", "_").lower(): int(text)
        for name, text in ((name, decode_text(value)) for name, value in hyperparameters.items())
        if _COUNT.fullmatch(text.strip()) and int(text) > 0
    }
    return AnnouncedTotals(
        epochs=next((count for name, count in counts.items() if name in _EPOCHS), None),
        rounds=next((count for name, count in counts.items() if name in _ROUNDS), None),
    )


def _parse_line(text: str, ups: int) -> LineObservation | None:
    found = tqdm.read(text, ups)
    if found is not None:
        return found
    for _, read in _DIALECTS:
        found = read(text)
        if found is not None:
            return found
    return None


def _parse_partial_line(text: str, ups: int) -> LineObservation | None:
    """Parse an incomplete line: a complete bar shows that itself, but a number at the end may have more digits."""
    found = tqdm.read(text, ups) or frameworks.read_keras(text) or frameworks.read_rich(text)
    return found if found is not None and found.counter is not None else None


def _last_end(data: bytes) -> int:
    return max(data.rfind(b"\n"), data.rfind(b"\r"))

"""The user's metrics: a regex for each, searched in every line, and disabled if it takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.spec.metric import compile_metric
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.log_parsers.observations import parse_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regex import Pattern

LINE_SECONDS = 0.05
"""Maximum seconds for one regex and one line of at most 4096 bytes; slower ones would never end."""
FEED_SECONDS = 0.5
"""Maximum seconds for all regexes and lines of one turn; then the slowest is dropped, the others continue next turn."""


class Patterns:
    """The regexes of one job on one host; ``off`` has the reason for each dropped one.

    ``clock`` returns the CPU seconds of the thread, so that no regex is dropped because the machine is busy. Searches
    do not block other threads, because the library releases the interpreter's lock.
    """

    def __init__(self, metrics: Mapping[str, str], clock: Callable[[], float], off: dict[str, str]) -> None:
        self.off = off
        self._clock = clock
        self._spent: dict[str, float] = {}
        self._over = False
        self._patterns: dict[str, Pattern[str]] = {
            name: compile_metric(name, text) for name, text in metrics.items() if name not in off
        }

    def __bool__(self) -> bool:
        """Return True if there are regexes."""
        return bool(self._patterns)

    def reset_budget(self) -> None:
        """Reset the time budget of the regexes."""
        self._spent = dict.fromkeys(self._patterns, 0.0)
        self._over = False

    def search(self, line: str) -> list[tuple[str, float | None]]:
        """Return the values in a line, with the names of their metrics."""
        found: list[tuple[str, float | None]] = []
        if self._over:
            return found
        for name, pattern in list(self._patterns.items()):
            begun = self._clock()
            text: str | None = None
            try:
                match = pattern.search(line, timeout=LINE_SECONDS, concurrent=True)
                text = match[1] if match else None
            except TimeoutError:
                if self._clock() - begun > LINE_SECONDS / 2:
                    self._disable(name, f"more than {LINE_SECONDS * 1000:g} ms for one line")
            self._spent[name] = self._spent.get(name, 0.0) + self._clock() - begun
            number = _number(text)
            if number is not None:
                found.append((name, number[0]))
        if sum(self._spent.values()) > FEED_SECONDS:
            self._over = True
            slowest = max(self._patterns, key=lambda name: self._spent.get(name, 0.0), default="")
            self._disable(slowest, f"{format_duration(self._spent.pop(slowest, 0.0))} for a few lines")
        return found

    def _disable(self, name: str, took: str) -> None:
        if self._patterns.pop(name, None) is not None:
            self.off[name] = (
                f"The regex of metric {name} took {took} and was disabled. Avoid a repeated group inside a "
                "repeated group."
            )


def _number(text: str | None) -> tuple[float | None] | None:
    if text is None:
        return None
    try:
        return (parse_number(text),)
    except ValueError:
        return None  # SageMaker drops what is no number, too

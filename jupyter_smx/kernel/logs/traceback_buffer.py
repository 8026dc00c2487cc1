"""The end of a log that a cell prints while it waits: a traceback there is held back until it is known whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = "Traceback (most recent call last):"
_BETWEEN = ("During handling of the above exception", "The above exception was the direct cause")
_LONGEST = 65_536


class HeldBack:
    """Writes a log as it comes, but for a traceback at its end: the failure of the cell shows the job's once more.

    Whatever comes after a traceback, and a quiet moment (an empty text), let it go: the code went on.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._held = ""

    def __call__(self, text: str) -> None:
        """Take the next piece of the log."""
        whole = self._held + text
        at = _end_that_is_a_traceback(whole) if text else len(whole)
        if len(whole) - at > _LONGEST:
            at = len(whole)
        self._held = whole[at:]
        if at:
            self._write(whole[:at])

    def end(self, traceback: str = "") -> None:
        """Write what is left, unless it is the ``traceback`` that is shown elsewhere."""
        held, self._held = self._held, ""
        if held and _last_line(held) != (_last_line(traceback) or None):
            self._write(held)


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _is_or_becomes(line: str, *begins: str) -> bool:
    """Say whether a line begins so, or could when the rest of it has come."""
    whole = line.endswith("\n")
    return any(line.startswith(begin) or (not whole and begin.startswith(line)) for begin in begins)


def _end_that_is_a_traceback(text: str) -> int:
    """Find where the traceback begins that reaches to the end of a text; the text's length where there is none."""
    begin, over, at = -1, False, 0
    for line in text.splitlines(keepends=True):
        if _is_or_becomes(line, _HEAD):
            begin, over = (at if begin < 0 else begin), False
        elif begin >= 0 and line.strip() and not line.startswith((" ", "\t")) and not _is_or_becomes(line, *_BETWEEN):
            # The line that names the exception ends a traceback; one more is something else.
            begin, over = (-1, False) if over else (begin, True)
        at += len(line)
    return begin if begin >= 0 else len(text)

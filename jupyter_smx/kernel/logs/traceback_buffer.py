"""Delay a traceback at the end of a printed log until the job's result shows whether to print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = "Traceback (most recent call last):"
_CHAIN_HEADERS = ("During handling of the above exception", "The above exception was the direct cause")
_MAX_BUFFER = 65_536


class TracebackBuffer:
    """Writes a log as it comes, except a traceback at its end, which the failure of the cell will show.

    Text after a traceback, or a quiet moment (an empty text), releases it: the code continued.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._buffer = ""

    def __call__(self, text: str) -> None:
        """Take the next piece of the log."""
        whole = self._buffer + text
        at = _trailing_traceback_start(whole) if text else len(whole)
        if len(whole) - at > _MAX_BUFFER:
            at = len(whole)
        self._buffer = whole[at:]
        if at:
            self._write(whole[:at])

    def flush(self, traceback: str = "") -> None:
        """Write what is left, unless it is the ``traceback`` that is shown elsewhere."""
        held, self._buffer = self._buffer, ""
        if held and _last_line(held) != (_last_line(traceback) or None):
            self._write(held)


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _may_start_with(line: str, *begins: str) -> bool:
    """Return True if a line begins with one of the words, or could when the rest of it has come."""
    whole = line.endswith("\n")
    return any(line.startswith(begin) or (not whole and begin.startswith(line)) for begin in begins)


def _trailing_traceback_start(text: str) -> int:
    """Find where the traceback begins that reaches to the end of a text; the text's length where there is none."""
    begin, over, at = -1, False, 0
    for line in text.splitlines(keepends=True):
        if _may_start_with(line, _HEAD):
            begin, over = (at if begin < 0 else begin), False
        elif (
            begin >= 0
            and line.strip()
            and not line.startswith((" ", "\t"))
            and not _may_start_with(line, *_CHAIN_HEADERS)
        ):
            # The line with the exception's name ends a traceback; another such line is something else.
            begin, over = (-1, False) if over else (begin, True)
        at += len(line)
    return begin if begin >= 0 else len(text)

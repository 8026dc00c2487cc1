"""Decide which lines of a long log a cell shows: the first and the last ones, within a number of bytes. Pure."""

from __future__ import annotations

from collections import deque

from jupyter_smx.model.text import format_left_out, format_size


class LogBudget:
    """Takes the pieces of one log, and returns what to show of each; half of ``limit`` bytes is for the last lines.

    A ``limit`` of 0 shows everything.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.omitted_lines = 0
        """Lines that were taken and are not going to be shown."""
        self.omitted_size = 0
        """Their bytes, those of parts of a line included."""
        self.is_over = False
        """True if the log is longer than the limit: the rest is shown at the end, or not at all."""
        self._head = limit - limit // 2
        self._is_full = False
        self._has_line = False
        """True if a whole line was shown: then no part of one has to be."""
        self._tail: deque[str] = deque()
        self._tail_size = 0

    def take(self, text: str) -> str:
        """Take the next piece, and return the part of it to show now."""
        if not self.limit:
            return text
        shown = "" if self._is_full else self._fill_head(text)
        if rest := text[len(shown) :]:
            self._is_full = True
            self._keep(rest)
        return shown

    def last_lines(self) -> str:
        """Return the last lines, once no piece can follow; lines before them are counted as omitted."""
        text = "".join(self._tail)
        self._tail.clear()
        over = self._tail_size - self.limit // 2
        self._tail_size = 0
        if over <= 0:
            return text
        begin = len(_cut(text, over))
        # The rest of a line would look like a line; cut only a line that fills the cell alone.
        begin = text.find("\n", begin) + 1 or begin
        self._omit(text[:begin])
        return text[begin:]

    def _fill_head(self, text: str) -> str:
        size = _size(text)
        if size <= self._head:
            self._head -= size
            self._has_line = self._has_line or "\n" in text or "\r" in text
            return text
        fitting = _cut(text, self._head)
        whole = fitting[: max(fitting.rfind("\n"), fitting.rfind("\r")) + 1]
        return whole if whole or self._has_line else fitting

    def _keep(self, text: str) -> None:
        most = self.limit // 2
        for line in text.splitlines(keepends=True) if _size(text) > most else (text,):
            self._tail.append(line)
            self._tail_size += _size(line)
        while self._tail and self._tail_size - _size(self._tail[0]) >= most:
            dropped = self._tail.popleft()
            self._tail_size -= _size(dropped)
            self._omit(dropped)
            self.is_over = True
        self.is_over = self.is_over or self._tail_size > most

    def _omit(self, text: str) -> None:
        self.omitted_lines += text.count("\n")
        self.omitted_size += _size(text)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _cut(text: str, size: int) -> str:
    """Return the beginning of a text, of at most ``size`` bytes."""
    return text[:size] if text.isascii() else text.encode(errors="replace")[:size].decode(errors="ignore")


def format_pause(job: str, limit: int) -> str:
    """Write the line that stands after the first lines of a long log."""
    return (
        f"jupyter_smx: The log of {job} is longer than {format_size(limit)}, the limit of a cell "
        "(SmxMagics.log_limit). The cell shows the last lines at its end. "
        f"`jupyter smx logs {job} -f` in a terminal shows all lines, and `job.logs()` returns them.\n"
    )


def format_omission(lines: int, size: int) -> str:
    """Write the line that stands before the last lines of a long log: how many lines and bytes are missing.

    A progress bar writes megabytes and ends at most one line.
    """
    if not lines:
        return f"jupyter_smx: {format_left_out(size)}.\n"
    count, verb = ("1 line", "is") if lines == 1 else (f"{lines:,} lines", "are")
    return f"jupyter_smx: {count} ({format_size(size)}) {verb} left out here.\n"

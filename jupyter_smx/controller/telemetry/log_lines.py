"""Read whole lines of a log with their times, from its begin or from its end, a bounded part at a time.

A line ends after its newline, before a gap, and at the end of a log that gets no more bytes. Of a longer line each
:data:`MAX_LINE` bytes are a line of their own. Lines that are older than the index have the time of the begin of the
run and a millisecond for each line before them.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.controller.telemetry import log_file
from jupyter_smx.controller.telemetry.log_times import read_times, times_path
from jupyter_smx.model.results.log_lines import LogEvent, LogLines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.agent.system.resources.log_limit import Gap
    from jupyter_smx.controller.telemetry.log_times import LogTimes

MAX_LINE = 262_144
"""Bytes; CloudWatch cuts longer messages, too."""
PIECE = 2**20
"""Bytes of one page at most; more than a line."""
BLOCK = 65_536
"""Bytes in which newlines are counted, or searched for backwards."""


SHORT = 262_144
"""Bytes of a log and its index that are read without a thread, which takes longer than to read so much."""


class Selection(NamedTuple):
    """The lines to read: by bytes, by milliseconds since the epoch, and how many of the first or last ones."""

    after: int = 0
    before: int | None = None
    since: int = 0
    until: int | None = None
    limit: int = 10_000
    from_end: bool = False


class Span(NamedTuple):
    """A line's bytes in a log, with its newline."""

    begin: int
    end: int


def read_lines(path: Path, selected: Selection, *, run_begin: int, is_final: bool) -> LogLines:
    """Read a page of lines; ``run_begin`` is the time of lines without one, in milliseconds since the epoch.

    :raises OSError: the log cannot be read; a log that is not there yet is empty.
    """
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return LogLines(lines=(), begin=0, end=0, total=0, is_final=is_final)
    with closing(file):
        total = os.fstat(file.fileno()).st_size
        # Read after the size: each byte that is there has its entry.
        reader = LineReader(file.fileno(), total, read_times(times_path(path)), run_begin=run_begin, is_final=is_final)
        return reader.read(selected)


def is_short(path: Path) -> bool:
    """Return True if reading a log takes next to no time."""
    return sum(_size(file) for file in (path, times_path(path))) <= SHORT


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


class LineReader:
    """Reads lines of an open log of ``total`` bytes."""

    def __init__(self, log: int, total: int, times: LogTimes, *, run_begin: int, is_final: bool) -> None:
        self._log = log
        self._total = total
        self._times = times
        self._run_begin = run_begin
        self._is_final = is_final
        self._gaps = log_file.gaps(log)
        self._untimed = min(times.begins[0], total) if times.begins else total
        """Bytes before the first entry."""
        self._floor = run_begin + self._count_newlines(0, self._untimed) if times.begins and self._untimed else 0
        """No line with an entry is older than one without."""

    def read(self, selected: Selection) -> LogLines:
        """Read a page; without a limit of lines, only the times of the log's first and last byte."""
        begin = max(selected.after, self._first_byte_since(selected.since))
        end = self._total if selected.before is None else min(self._total, selected.before)
        if selected.until is not None:
            end = min(end, self._first_byte_since(selected.until))
        read_page = self._last if selected.from_end else self._first
        spans, has_more = read_page(begin, end, selected.limit)
        # Without lines a reader stays where it was: the end of the log may be in the middle of a line.
        place = selected.before if selected.from_end and selected.before is not None else selected.after
        has_times = bool(self._total) and not selected.limit
        return LogLines(
            lines=self._with_times(spans),
            begin=spans[0].begin if spans else place,
            end=spans[-1].end if spans else place,
            total=self._total,
            first_at=self._time_of(0) if has_times else None,
            last_at=self._time_of(self._total - 1) if has_times else None,
            is_final=self._is_final,
            has_more=has_more,
        )

    def _first(self, begin: int, end: int, limit: int) -> tuple[list[Span], bool]:
        if begin >= end or not limit:
            return [], False
        found = [span for span in self._split(*self._piece(begin, PIECE)) if span.begin < end][:limit]
        return found, bool(found) and found[-1].end < end and self._has_line(found[-1].end)

    def _has_line(self, begin: int) -> bool:
        """Return True if a line that begins there is whole."""
        return bool(self._split(*self._piece(begin, MAX_LINE)))

    def _piece(self, begin: int, size: int) -> tuple[bytes, int]:
        """Read bytes up to a gap, and no later ones than the index may have."""
        piece = log_file.piece_after(self._log, begin, size)
        return piece.data[: max(0, self._total - piece.begin)], piece.begin

    def _last(self, begin: int, end: int, limit: int) -> tuple[list[Span], bool]:
        found: list[Span] = []
        while begin < end and limit and not found:
            block_begin, block_end = log_file.block_before(self._gaps, end, PIECE)
            # A line may begin before the block, by its own length at most.
            end = self._line_begin(block_begin)
            spans = self._split(os.pread(self._log, block_end - end, end), end)
            found = [span for span in spans if span.begin >= begin][-limit:]
        return found, bool(found) and found[0].begin > begin

    def _split(self, data: bytes, begin: int) -> list[Span]:
        """Split bytes that begin a line into lines; the last part counts if nothing can follow it."""
        spans: list[Span] = []
        at = 0
        while at < len(data):
            newline = data.find(b"\n", at, at + MAX_LINE)
            size = newline + 1 - at if newline >= 0 else MAX_LINE
            if at + size > len(data):
                if not self._is_line_end(begin + len(data)):
                    break
                size = len(data) - at
            spans.append(Span(begin + at, begin + at + size))
            at += size
        return spans

    def _is_line_end(self, offset: int) -> bool:
        """Return True if a line without newline ends there: before a gap, or at the end of a final log."""
        if offset >= self._total:
            return self._is_final
        return any(gap.begin == offset for gap in log_file.gaps(self._log))

    def _with_times(self, spans: list[Span]) -> tuple[LogEvent, ...]:
        if not spans:
            return ()
        begin = spans[0].begin
        data = os.pread(self._log, spans[-1].end - begin, begin)
        untimed = self._count_newlines(0, begin) if begin < self._untimed else 0
        lines = []
        for span in spans:
            at = self._times.at(span.end - 1)
            text = data[span.begin - begin : span.end - begin].removesuffix(b"\n").decode("utf-8", "replace")
            lines.append(LogEvent(span.begin, self._run_begin + untimed if at is None else max(at, self._floor), text))
            untimed += 1
        return tuple(lines)

    def _time_of(self, offset: int) -> int:
        at = self._times.at(offset)
        return self._run_begin + self._count_newlines(0, offset) if at is None else max(at, self._floor)

    def _first_byte_since(self, moment: int) -> int:
        """Return where the first line begins that is of this time or later; the end of the log if there is none."""
        if self._untimed and (moment <= self._floor or not self._times.begins):
            return self._begin_of_untimed(max(0, moment - self._run_begin))
        first = self._times.first_byte_since(moment)
        return self._total if first is None or first >= self._total else self._line_begin(first)

    def _begin_of_untimed(self, number: int) -> int:
        """Return where the line after so many lines begins, among those without times."""
        at = 0
        while at < self._untimed:
            piece = log_file.piece_after(self._log, at, min(BLOCK, self._untimed - at))
            if not piece.data:
                break
            inside = piece.data.count(b"\n")
            if inside >= number:
                return piece.begin + _end_of_line(piece.data, number)
            number -= inside
            at = piece.end
        return self._untimed

    def _count_newlines(self, begin: int, end: int) -> int:
        count, at = 0, begin
        while at < end:
            piece = log_file.piece_after(self._log, at, min(BLOCK, end - at))
            if not piece.data:
                break
            count += piece.data[: max(0, end - piece.begin)].count(b"\n")
            at = piece.end
        return count

    def _line_begin(self, offset: int) -> int:
        """Return where the line begins that has this byte, or the part of a long line."""
        begin = _line_begin(offset, self._gaps, lambda size, at: os.pread(self._log, size, at))
        return begin + max(0, offset - begin) // MAX_LINE * MAX_LINE


def _end_of_line(data: bytes, number: int) -> int:
    at = 0
    for _ in range(number):
        at = data.index(b"\n", at) + 1
    return at


def _line_begin(offset: int, gaps: list[Gap], read: Callable[[int, int], bytes]) -> int:
    end = next((gap.end for gap in gaps if gap.has(offset)), offset)
    while end > 0:
        begin, stop = log_file.block_before(gaps, end, BLOCK)
        if stop < end:
            return end  # a gap ends there
        newline = read(end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0

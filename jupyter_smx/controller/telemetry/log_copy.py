"""The controller's copy of one log while it grows: written at its place, within the limit of a log on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.agent.system.resources.log_limit import BLOCK, MIN_LIMIT, NO_GAP, Gap, left_out, punch
from jupyter_smx.controller.telemetry.log_times import LogTimesWriter
from jupyter_smx.model.text import NOTICE_SIZE, format_left_out, format_size

if TYPE_CHECKING:
    from pathlib import Path

SETTING = "c.ControllerApp.log_limit_mib"


def gap_notice(gap: Gap, limit: int) -> bytes:
    """Return a line that reports how much of a log was left out, and the setting to allow more."""
    text = (
        f"[... {format_left_out(gap.end - gap.begin)}: a job's log may take {format_size(limit)} on disk "
        f"({SETTING} sets it) ...]"
    )
    return b"\n" + text.encode().ljust(NOTICE_SIZE - 2) + b"\n"


class LogCopy:
    """An open copy; ``cursor`` is the offset of the next byte to be written.

    ``total`` is in all methods how long the log is known to be.
    """

    def __init__(self, path: Path, limit: int, *, can_punch: bool = True, times: Path | None = None) -> None:
        """Open the copy, or make it; ``times`` is the index of its times, None for a file without one.

        :raises OSError: the disk refuses.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not to append: bytes are written at their place, and the sentence into the middle.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.cursor = os.fstat(self._descriptor).st_size
        self.can_punch = can_punch
        """False once the file system could not leave out a part of a file; the log stays whole then."""
        self._times = None if times is None else LogTimesWriter(times)
        self._limit = limit
        self._gap = NO_GAP
        self._zeros_begin = self.cursor  # where the zeros begin with which the last piece ended

    def size(self) -> int:
        """Count the bytes that are here."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file and its index."""
        os.close(self._descriptor)
        if self._times is not None:
            self._times.close()

    def add_time(self, now: int) -> None:
        """Record when the next bytes arrive, in milliseconds since the epoch, unless they are here already."""
        # Another controller that wrote them gave them their times.
        if self._times is not None and self.size() <= self.cursor:
            self._times.add(self.cursor, now)

    def limit(self, total: int) -> None:
        """Leave out what is too much of a log, and pass over what is not here yet of that.

        :raises OSError: the disk refuses.
        """
        gap = self._gap_of(total)
        if self.cursor < gap.begin:
            return  # the size of the copy is the cursor of the next controller: nothing is written behind it
        if gap.end > self._gap.end:
            self.can_punch = punch(self._descriptor, max(gap.begin, self._gap.end), gap.end)
            if not self.can_punch:
                return
            self._gap = gap
            os.pwrite(self._descriptor, gap_notice(gap, self._limit), gap.begin - NOTICE_SIZE)
        if gap.has(self.cursor):
            self.cursor = gap.end

    def is_in_gap(self, total: int) -> bool:
        """Return True if the next bytes are in the gap."""
        return self._gap_of(total).has(self.cursor)

    def stop(self, total: int) -> int:
        """Return the offset where the next gap begins, or the end."""
        gap = self._gap_of(total)
        return gap.begin if self.cursor < gap.begin else total

    def write(self, piece: bytes, total: int) -> None:
        """Write the next bytes at their place, as far as they are kept.

        :raises OSError: the disk refuses.
        """
        gap = self._gap_of(total)
        if self.cursor < gap.begin:
            piece = piece[: gap.begin - self.cursor]
        begin, end = self._without_gap(piece, is_last=self.cursor + len(piece) >= total)
        while begin < end:
            begin += os.pwrite(self._descriptor, piece[begin:end], self.cursor + begin)
        self.cursor += len(piece)

    def _without_gap(self, piece: bytes, *, is_last: bool) -> tuple[int, int]:
        """Return begin and end of a piece without zeros from the gap of a host, which become a gap here.

        A job's own zeros are written, and those at the end of a log: the size of the copy is the number of collected
        bytes.
        """
        size = len(piece)
        leading, trailing = size - len(piece.lstrip(b"\0")), size - len(piece.rstrip(b"\0"))
        zeros_begin = self._zeros_begin
        if leading < size:
            self._zeros_begin = self.cursor + size - trailing
        elif _is_gap(zeros_begin, 0):
            return (0, size if is_last else 0)
        begin = leading if _is_gap(zeros_begin, self.cursor + leading) else 0
        return begin, size - trailing if not is_last and _is_gap(self._zeros_begin, 0) else size

    def _gap_of(self, total: int) -> Gap:
        return left_out(total, self._limit) if self.can_punch else NO_GAP


def _is_gap(begin: int, end: int) -> bool:
    """Return True if zeros may be a gap by a host's own limit: whole blocks, after the kept begin of the log."""
    return begin >= MIN_LIMIT // 2 and begin % BLOCK == 0 and end % BLOCK == 0

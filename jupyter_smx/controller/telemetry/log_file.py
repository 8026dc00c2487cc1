"""Read the file of a log whose middle may be left out: a hole in the file, whose zeros are not returned.

Offsets are those of the whole log. On file systems that cannot report holes, there are none.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.agent.system.resources.log_limit import Gap

if TYPE_CHECKING:
    from pathlib import Path

MAX_GAPS = 64
"""A log has one gap, rarely two; file systems that compress zeros may make others."""


class LogPiece(NamedTuple):
    """Bytes of a log, the offset of their first one, and the size of the whole log."""

    data: bytes
    begin: int
    total: int

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.begin + len(self.data)


def read_after(path: Path, offset: int, limit: int) -> LogPiece:
    """Read at most ``limit`` bytes from ``offset`` on, or from the end of the gap that has it.

    :raises OSError: the file cannot be read; a file that is not there yet is an empty log.
    """
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        return piece_after(file.fileno(), offset, limit)
    return LogPiece(b"", offset, 0)


def piece_after(log: int, offset: int, limit: int) -> LogPiece:
    """Do the same with an open file."""
    total = os.fstat(log).st_size
    begin = offset
    while begin < total:
        begin = _next_data(log, begin, total)
        data = os.pread(log, limit, begin)
        # Looked up after the bytes were read: they may have been left out meanwhile.
        end = _next_hole(log, begin, total)
        if end > begin or not data:
            return LogPiece(data[: end - begin], begin, total)
    return LogPiece(b"", begin, total)


def read_before(path: Path, end: int, limit: int) -> LogPiece:
    """Read at most ``limit`` bytes that end at ``end``, or at the begin of the gap that lies before it.

    :raises OSError: the file cannot be read; a file that is not there yet is an empty log.
    """
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        log = file.fileno()
        total = os.fstat(log).st_size
        begin, end = block_before(gaps(log), min(end, total), limit)
        return LogPiece(os.pread(log, end - begin, begin), begin, total)
    return LogPiece(b"", 0, 0)


def read_last(path: Path, count: int, limit: int) -> LogPiece:
    """Read at most ``limit`` bytes of the last ``count``.

    :raises OSError: the file cannot be read; a file that is not there yet is an empty log.
    """
    total = 0
    with suppress(FileNotFoundError):
        total = path.stat().st_size
    return read_after(path, max(0, total - count), limit)


def block_before(known: list[Gap], end: int, size: int) -> tuple[int, int]:
    """Return begin and end of at most ``size`` bytes before ``end`` without a gap."""
    for gap in known:
        if gap.begin < end <= gap.end:
            end = gap.begin
    return max(0, end - size, *(gap.end for gap in known if gap.end <= end)), end


def gaps(log: int) -> list[Gap]:
    """List the gaps of an open log in their order."""
    total, at = os.fstat(log).st_size, 0
    found: list[Gap] = []
    while len(found) < MAX_GAPS and (begin := _next_hole(log, at, total)) < total:
        at = _next_data(log, begin, total)
        found.append(Gap(begin, at))
    return found


def data_ranges(log: int) -> list[tuple[int, int]]:
    """List begin and end of the bytes that an open log has, in their order."""
    total, at = os.fstat(log).st_size, 0
    found: list[tuple[int, int]] = []
    for gap in [*gaps(log), Gap(total, total)]:
        if gap.begin > at:
            found.append((at, gap.begin))
        at = gap.end
    return found


def _next_data(log: int, offset: int, total: int) -> int:
    try:
        return os.lseek(log, offset, os.SEEK_DATA)
    except OSError as error:
        return total if error.errno == errno.ENXIO else offset


def _next_hole(log: int, offset: int, total: int) -> int:
    if offset >= total:
        return total
    try:
        return min(os.lseek(log, offset, os.SEEK_HOLE), total)
    except OSError:
        return total

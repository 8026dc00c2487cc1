"""The index of times beside a log: which bytes arrived when, in an append-only file.

The file is a header and entries of 16 bytes, each the offset of a piece and its time of arrival in milliseconds since
the epoch. Bytes have the time of the last entry at or before them. An entry is written before its bytes, and a reader
ignores entries that go back, so a time never changes after it was given.
"""

from __future__ import annotations

import logging
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import ge, gt
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

HEADER = b"smx log times 1\n"
"""The format and its version, as long as an entry."""
ENTRY = Struct("<QQ")
INTERVAL = 10
"""Milliseconds between two entries at least; pieces in between share the time of the first."""
_CLOSED = -1
DOUBLE_EVERY = 32_768
"""Entries after which the interval doubles, so that a job that prints for weeks has an index of a few MiB."""


def times_path(log: Path) -> Path:
    """Return the file with the times of a log."""
    return log.with_suffix(".times")


def interval_after(entries: int) -> int:
    """Return the milliseconds until the next entry of an index with this number of entries."""
    return INTERVAL << entries // DOUBLE_EVERY


class LogTimesWriter:
    """Appends to the index of one log while a piece after another arrives.

    The file is opened with the first piece. A disk that refuses costs times, never bytes of the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _CLOSED
        self._entries = 0
        self._newest = 0
        self._is_refused = False

    def add(self, offset: int, now: int) -> None:
        """Record that the bytes from ``offset`` on arrive ``now``, in milliseconds; call it before they are written."""
        if self._is_refused:
            return
        try:
            if self._descriptor == _CLOSED:
                self._open()
            if not self._is_refused and self._is_due(now):
                self._append(offset, now)
        except OSError as error:
            _log.info("%s cannot be written: %s; lines have the times of earlier ones", self._path, error)
            self._is_refused = True

    def close(self) -> None:
        """Close the file."""
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = descriptor = os.open(self._path, flags, 0o600)
        size = os.fstat(descriptor).st_size
        if not size:
            return
        if size % ENTRY.size:  # a controller was killed, or the disk was full, in the middle of an entry
            size -= size % ENTRY.size
            os.ftruncate(descriptor, size)
        if size and os.pread(descriptor, len(HEADER), 0) != HEADER:
            self._is_refused = True  # of another version, whose reader gives no times
        elif size > len(HEADER):
            self._entries = size // ENTRY.size - 1
            self._newest = ENTRY.unpack(os.pread(descriptor, ENTRY.size, size - ENTRY.size))[1]

    def _is_due(self, now: int) -> bool:
        return not self._entries or now - self._newest >= interval_after(self._entries)

    def _append(self, offset: int, now: int) -> None:
        entry = ENTRY.pack(offset, now)
        is_new = not self._entries and not os.fstat(self._descriptor).st_size
        content = HEADER + entry if is_new else entry
        if os.write(self._descriptor, content) < len(content):
            self._is_refused = True  # the next opening removes the part
        self._entries += 1
        self._newest = now


class LogTimes(NamedTuple):
    """The times of a log: offsets, each larger than the one before, and their milliseconds, none less."""

    begins: list[int]
    moments: list[int]

    def at(self, offset: int) -> int | None:
        """Return the time of a byte; None before the first entry."""
        place = bisect_right(self.begins, offset)
        return self.moments[place - 1] if place else None

    def first_byte_since(self, moment: int) -> int | None:
        """Return the first byte of this time or a later one; None if there is no entry for it."""
        place = bisect_left(self.moments, moment)
        return self.begins[place] if place < len(self.begins) else None


NO_TIMES = LogTimes([], [])


def parse_times(content: bytes) -> LogTimes:
    """Read the entries of an index; one that was cut, or goes back, is left out, and another version has none."""
    if not content.startswith(HEADER):
        return NO_TIMES
    whole = len(content) - len(content) % ENTRY.size
    values = array("Q", content[len(HEADER) : whole])
    if sys.byteorder == "big":
        values.byteswap()
    begins, moments = values[::2].tolist(), values[1::2].tolist()
    if any(map(ge, begins, begins[1:])):
        begins, moments = _without_returns(begins, moments)
    if any(map(gt, moments, moments[1:])):
        moments = list(accumulate(moments, max))
    return LogTimes(begins, moments)


def _without_returns(begins: list[int], moments: list[int]) -> tuple[list[int], list[int]]:
    """Leave out entries that go back: of two controllers that pull a log, the first to write a byte gives its time."""
    kept: list[tuple[int, int]] = []
    for entry in zip(begins, moments, strict=True):
        if not kept or entry[0] > kept[-1][0]:
            kept.append(entry)
    return [begin for begin, _ in kept], [moment for _, moment in kept]


def read_times(path: Path) -> LogTimes:
    """Read an index; a file that is not there, or cannot be read, has no times."""
    try:
        return parse_times(path.read_bytes())
    except OSError:
        return NO_TIMES

"""The limit of a log on disk: which bytes in its middle are left out, and how their room is given back.

Offsets in a log stay as they are: the file keeps its size and has a hole. Agent and controller compute the same hole.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

BLOCK = 4_096
"""Bytes; most file systems give room back in blocks of this size or smaller ones."""
_LARGE_BLOCK = 1 << 20
"""Bytes; the same for all file systems in use. Logs with a limit of 16 MiB and more keep to it."""
MAX_STEP = 16 << 20
"""Bytes; a growing log frees space in steps of at most this size."""
MIN_LIMIT = 16 * BLOCK
"""Bytes; less would leave no lines to read at either end."""
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_REFUSALS = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ENODEV, errno.ESPIPE})
_POINTER_64_BIT = 1 << 32


class Gap(NamedTuple):
    """Bytes of a log from ``begin`` up to ``end``, both multiples of :data:`BLOCK`; none where they are equal."""

    begin: int
    end: int

    def has(self, offset: int) -> bool:
        """Return True if a byte lies in the gap."""
        return self.begin <= offset < self.end


NO_GAP = Gap(0, 0)


def step_of(limit: int) -> int:
    """Return the bytes by which the gap of a log grows at a time."""
    return min(MAX_STEP, _align(max(limit, MIN_LIMIT) // 8, limit))


def left_out(size: int, limit: int) -> Gap:
    """Return the bytes that a log of ``size`` bytes leaves out to take at most ``limit`` bytes (0: no limit).

    One half of the limit is for the log's begin; the end has the other one, less a step.
    """
    limit = max(limit, MIN_LIMIT) if limit else 0
    if not limit or size <= limit:
        return NO_GAP
    begin, step = _align(limit // 2, limit), step_of(limit)
    return Gap(begin, begin + -((limit - size) // step) * step)


def _align(size: int, limit: int) -> int:
    block = _LARGE_BLOCK if limit >= MAX_STEP else BLOCK
    return size // block * block


def punch(descriptor: int, begin: int, end: int) -> bool:
    """Free the disk blocks of these bytes of a file, which then read as zeros; False if the file system cannot.

    :raises OSError: the disk refuses it for now.
    """
    if not process.LINUX or sys.maxsize < _POINTER_64_BIT:
        return False
    if end <= begin:
        return True
    wanted = (ctypes.c_int64(begin), ctypes.c_int64(end - begin))
    if process.libc().fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, *wanted) == 0:
        return True
    code = ctypes.get_errno()
    if code in _REFUSALS:
        return False
    raise OSError(code, os.strerror(code))


class LogLimit:
    """Keeps the file of one log within its limit while a job writes to it."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._end = 0
        self.is_refused = False
        """The file system cannot give room back; the log stays whole."""

    def apply(self, size: int) -> None:
        """Free the gap of a log of ``size`` bytes; after an error of the disk, the next growth tries again."""
        gap = left_out(size, self._limit)
        if self.is_refused or gap.end <= self._end:
            return
        try:
            self._leave_out(Gap(max(gap.begin, self._end), gap.end))
        except OSError as error:
            process.log(f"{self._path}: the middle of this log could not be left out: {error}")

    def _leave_out(self, gap: Gap) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            state = os.fstat(descriptor)
            # A job may have put another file there; a file with two links may be someone else's, too.
            if stat.S_ISREG(state.st_mode) and state.st_nlink == 1:
                self.is_refused = not punch(descriptor, *gap)
                self._end = gap.end
        finally:
            os.close(descriptor)
        if self.is_refused:
            process.log(f"{self._path}: this file system cannot leave out a part of a file; the log stays whole.")

"""Allow one process of a kind for each data folder: the lock, and its holder."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_ONLY_OWNER = 0o600
_PAUSE = 0.01
_MAX_TEXT = 64


class SingletonLock:
    """The right to be the one process of a kind for a data folder; held until the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def acquire(self, wait: float = 0.0) -> bool:
        """Take the lock and write this process's number into it; False if another process has it.

        A process that only reads the holder (:func:`read_holder`) has the lock for microseconds. ``wait`` is for how
        many seconds to try again, so that the caller outlasts such a process.

        :raises OSError: the folder cannot be written or the disk is full.
        """
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _ONLY_OWNER)
        try:
            if not _lock(file, wait):
                os.close(file)
                return False
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return True

    def write(self, *words: str) -> None:
        """Write words for readers of the holder, one a line, behind this process's number."""
        os.pwrite(self._file, "\n".join([str(os.getpid()), *words, ""]).encode(), 0)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def read_holder(path: Path) -> list[str]:
    """Return the number of the process that holds a lock, and its words; an empty list if none holds it."""
    import fcntl  # noqa: PLC0415 - Windows has none, and there nothing is started

    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read(_MAX_TEXT).decode().split()
    except (OSError, ValueError):
        pass
    return []


def try_lock(file: int) -> bool:
    """Lock an open file; return False if another process, or another open file of this one, has it locked."""
    import fcntl  # noqa: PLC0415 - Windows has none, and there nothing is started

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock(file: int, wait: float) -> bool:
    end = time.monotonic() + wait
    while not try_lock(file):
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE)
    return True

"""A file beside the records whose room lets the ends of jobs be written on a full disk."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = ".reserve"
SIZE = 512 * 1024
"""Bytes; the end of a job takes some 40 KB of the write-ahead log."""
_ROOM = 16 * 1024 * 1024
"""Bytes that are free where the file is made: on a fuller disk it would take the last room from others."""
_ONLY_OWNER = 0o600


class Reserve:
    """The file in a folder. A disk that refuses it is no error: then there is no reserve."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def release(self) -> bool:
        """Free the room of the file; return False where there is none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def restore(self) -> None:
        """Make the file unless it is there, where the disk has room for it and more."""
        with suppress(OSError):
            if self._path.exists() or shutil.disk_usage(self._path.parent).free < _ROOM:
                return
            self._allocate()

    def _allocate(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _ONLY_OWNER)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, SIZE)
            else:
                os.write(descriptor, bytes(SIZE))
        except OSError:
            self.release()
            raise
        finally:
            os.close(descriptor)

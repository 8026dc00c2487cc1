"""Write files beside the buckets that become objects or parts by a rename, or are removed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.aws.s3.storage.layout import S3Storage, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

COPY_PIECE = 64 * 1024 * 1024
READ_PIECE = 1024 * 1024


class TemporaryFile:
    """A new file; ``discard`` removes it unless ``move`` gave it its place.

    Nothing is synchronised to the disk: a crash of the machine may lose the last objects, as with ``cp``.
    """

    def __init__(self, storage: S3Storage) -> None:
        self.path = storage.temporary_path()
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0

    @property
    def is_open(self) -> bool:
        """Return True until the file has its place or is removed."""
        return self._descriptor >= 0

    def write(self, pieces: Sequence[bytes]) -> None:
        """Append pieces."""
        for piece in pieces:
            view = memoryview(piece)
            while view:
                written = os.write(self._descriptor, view)
                view = view[written:]
                self.size += written

    def append_range(self, source: int, start: int, length: int) -> None:
        """Append bytes of an open file, by the kernel alone where the file system can."""
        copied = 0
        while copied < length:
            count = self._copy_piece(source, start + copied, min(COPY_PIECE, length - copied))
            if not count:
                raise OSError(f"the source ended {length - copied} bytes early")
            copied += count
        self.size += copied

    def _copy_piece(self, source: int, start: int, length: int) -> int:
        copy = getattr(os, "copy_file_range", None)
        if copy is not None:
            # Not every pair of file systems supports it, and then the bytes go through this process.
            with contextlib.suppress(OSError):
                return int(copy(source, self._descriptor, length, start))
        piece = os.pread(source, min(READ_PIECE, length), start)
        return os.write(self._descriptor, piece)

    def stat(self) -> os.stat_result:
        """Return the state of the open file, which a rename does not change."""
        return os.fstat(self._descriptor)

    def move(self, target: str) -> None:
        """Rename the file to its place, replacing what is there, and close it."""
        os.replace(self.path, target)
        self.path = ""
        self.discard()

    def discard(self) -> None:
        """Close the file, and remove it where it did not get a place; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        path, self.path = self.path, ""
        if path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def remove_temporary_files(root: Path, machine: str) -> None:
    """Remove what a process of this machine left behind when it was killed; call it before the first request."""
    for path in Path(temporary_folder(root, machine)).glob("*"):
        with contextlib.suppress(OSError):
            path.unlink()

"""Open files in a folder that a job may write to: no links, no blocking, and only regular files.

A job in a container sees only the folder of its host. It may replace a file by a link to any file of ours, by a pipe
without a writer, or by a folder. So each part of a name below a folder that is ours is opened relative to the one
before, and the type of the last one is checked after it is open.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_SIZE = 1 << 20
_MAX_LINKS = 2
"""Number of links of a collected file: the host's, and ours."""


class UnreadableError(Exception):
    """A file cannot be read, which is no error of the destination's disk; caused by an OSError."""


class OpenFile:
    """A file below ``top`` that is open; ``top`` itself is no link either, the folders above it are ours."""

    def __init__(self, folder: int, name: str, file: FileIO) -> None:
        self.file = file
        self._folder = folder
        self._name = name

    def size(self) -> int:
        """Count its bytes."""
        return os.fstat(self.file.fileno()).st_size

    def has_one_name(self) -> bool:
        """Return True if the file has no other link, through which it could be a file that is not the host's."""
        return os.fstat(self.file.fileno()).st_nlink == 1

    def link_or_copy(self, target: Path) -> None:
        """Link the file to ``target``, or copy it there if it has other links.

        :raises OSError: the disk of ``target`` refuses, or the name is in use.
        :raises UnreadableError: the source cannot be read.
        """
        if not self.link(target):
            with target.open("xb") as copy:
                while piece := self._read_chunk():
                    copy.write(piece)

    def _read_chunk(self) -> bytes:
        try:
            return self.file.read(_CHUNK_SIZE)
        except OSError as error:
            raise UnreadableError(error.strerror or str(error)) from error

    def link(self, target: Path) -> bool:
        """Link the file to ``target``; False if it has other links, the system refuses, or the name is in use.

        Where this process may do so, the file is its own afterwards, not that of the user of a container.

        :raises OSError: the disk of ``target`` fails.
        """
        try:
            os.link(self._name, target, src_dir_fd=self._folder, follow_symlinks=False)
        except (OSError, NotImplementedError):
            return False
        its = os.fstat(self.file.fileno())
        # The name may belong to another file since it was opened; or the file has a third name, through which the
        # next job on that host could write to ours.
        if os.path.samestat(target.lstat(), its) and its.st_nlink <= _MAX_LINKS:
            self._take_over(its.st_uid)
            return True
        target.unlink()
        return False

    def _take_over(self, owner: int) -> None:
        """Give the file to this process's user: its owner could change it through the host's name for it."""
        if os.geteuid() == 0 != owner:
            with suppress(OSError):  # some disks have one owner for all files
                os.fchown(self.file.fileno(), os.geteuid(), os.getegid())


@contextmanager
def open_file(top: Path, name: str, *, writable: bool = False) -> Iterator[OpenFile]:
    """Open a file below a folder, to read it or also to write it.

    :raises OSError: it does not exist, is no file, or one of its folders is a link.
    """
    flags = _FILE | (os.O_RDWR if writable else os.O_RDONLY)
    with (
        _open_parent(top, name) as (folder, last),
        os.fdopen(_open_regular(folder, last, flags), "rb", buffering=0) as file,
    ):
        yield OpenFile(folder, last, file)


def read(top: Path, name: str, most: int) -> bytes:
    """Read a file below ``top`` of at most ``most`` bytes.

    :raises OSError: it does not exist, is no file, or is longer.
    """
    with open_file(top, name) as it:
        content = bytearray()
        while piece := it.file.read(min(_CHUNK_SIZE, most + 1 - len(content))):
            content += piece
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    return bytes(content)


def is_absent(top: Path, name: str) -> bool:
    """Return True if a name does not exist below ``top``; False if it cannot be read."""
    try:
        with _open_parent(top, name) as (folder, last):
            os.stat(last, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def _open_parent(top: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield the open parent folder of a name, and the last part of the name."""
    *folders, last = parts = PurePosixPath(name).parts or ("",)
    if "\0" in name or not {"", "/", ".."}.isdisjoint(parts):
        raise OSError(errno.EINVAL, "it is not a file in that folder", name)
    here = os.open(top, _FOLDER)
    try:
        for each in folders:
            below = os.open(each, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, last
    finally:
        os.close(here)


def _open_regular(folder: int, name: str, flags: int) -> int:
    descriptor = os.open(name, flags, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a file", name)

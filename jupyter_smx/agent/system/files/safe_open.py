"""Open files in folders that a job writes to: without blocking, and only regular files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO

_OURS = 0o600
_PIECE = 1 << 20


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file that a job may have replaced by a pipe without a writer, which would block the agent's loop."""
    return os.open(path, flags | os.O_NONBLOCK)


def open_to_read(path: str) -> BinaryIO:
    """Open a file to read it.

    :raises OSError: it does not exist, or is a pipe, a socket, a device or a folder.
    """
    file = open(path, "rb", opener=_open_nonblocking)  # noqa: SIM115 - the caller closes it
    _check(file, path)
    return file


def open_to_write(path: str) -> BinaryIO:
    """Open a new file for writing and remove an existing one: a job's link would lead to another file.

    :raises OSError: the existing entry is a folder, or the file cannot be created.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return open(path, "xb")


def copy(source: str, target: str) -> None:
    """Copy a file with its mode and times; replace an existing one.

    In pieces: ``shutil.copy2`` copies all of it by one call, whose progress cannot be observed.

    :raises OSError: the source is no file or cannot be read, or the disk is full.
    """
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    with open_to_read(source) as file, open_to_write(target) as made:
        shutil.copyfileobj(file, made, _PIECE)
    shutil.copystat(source, target)


def _to_append(path: str, _flags: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags | os.O_NONBLOCK, _OURS)


def open_to_append(path: str) -> BinaryIO:
    """Open a file, unbuffered, to write to its end.

    :raises OSError: it is a link, a pipe, a socket, a device or a folder.
    """
    file = open(path, "ab", buffering=0, opener=_to_append)  # noqa: SIM115 - the caller closes it
    _check(file, path)
    return file


def _check(file: BinaryIO, path: str) -> None:
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file", path)

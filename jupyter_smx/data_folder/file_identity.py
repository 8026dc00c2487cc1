"""Identify files, so that a process notices that a path has another file than before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class FileIdentity(NamedTuple):
    """Identity of a file, or of a folder whose content may change."""

    device: int
    inode: int


class SocketIdentity(NamedTuple):
    """Identity of the file of a socket. A process that listens at the same address later has another file."""

    device: int
    inode: int
    changed: int
    """Nanoseconds; file systems use the inode of a deleted file again, and no process writes into this one."""


def read_file_identity(path: Path, known: FileIdentity | None) -> FileIdentity | None:
    """Return the identity of a file, None if there is none, and ``known`` if the system does not answer now."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return known
    return FileIdentity(found.st_dev, found.st_ino)


def read_socket_identity(path: Path) -> SocketIdentity:
    """Return the identity of the file of a socket.

    :raises FileNotFoundError, NotADirectoryError: there is none, so no process listens.
    """
    found = path.stat()
    return SocketIdentity(found.st_dev, found.st_ino, found.st_ctime_ns)

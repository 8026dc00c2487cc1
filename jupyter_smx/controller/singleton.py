"""Protect the data folder, listen on its socket, and identify the user of a connection."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx import controller_launch

if TYPE_CHECKING:
    from collections.abc import Iterator

_ONLY_OWNER = 0o600
_BACKLOG = 128
_CREDENTIALS = struct.Struct("3i")
_XUCRED = struct.Struct("2I")
_LOCAL_PEERCRED = 1
_XUCRED_SIZE = 76


@contextmanager
def protect_from_cleaners(folder: Path) -> Iterator[None]:
    """Hold a shared lock on a folder: ``systemd-tmpfiles`` leaves a locked folder of ``/var/tmp`` alone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks is none that is cleaned
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


class ListenSocket:
    """The unix socket at its path: it appears once it accepts connections, and is removed only while it is ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bind()

    def _bind(self) -> None:
        # Bind under a temporary name, so that no client finds the socket before its mode is set.
        self._temporary_path = self.path.with_name(f".{os.getpid():x}{secrets.token_hex(1)}")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.bind(os.fspath(self._temporary_path))
            self._temporary_path.chmod(_ONLY_OWNER)
            self.socket.listen(_BACKLOG)
            self.socket.setblocking(False)
            found = self._temporary_path.stat()
        except BaseException:
            self.socket.close()
            self._temporary_path.unlink(missing_ok=True)
            raise
        self._inode = (found.st_dev, found.st_ino)

    def publish(self) -> None:
        """Create the name in one step; a socket that a killed controller left is replaced.

        :raises OSError: the name cannot be created now; its file is removed then, since :meth:`rebind` makes another.
        """
        try:
            self._temporary_path.replace(self.path)
        except OSError:
            self._temporary_path.unlink(missing_ok=True)
            raise

    def is_published(self) -> bool:
        """Return True if clients find this socket under its name, or if the system does not answer now."""
        try:
            found = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return (found.st_dev, found.st_ino) == self._inode

    def rebind(self) -> socket.socket:
        """Create another socket and return the previous one, which has no name any more; the caller closes that.

        :raises OSError: it cannot be created now; the previous one stays.
        """
        before = self.socket, self._temporary_path
        try:
            self._bind()
        except BaseException:
            self.socket, self._temporary_path = before
            raise
        return before[0]

    def unpublish(self) -> None:
        """Remove the socket's name, so that no new client connects; connected ones stay."""
        if self._is_ours(self.path):
            self.path.replace(self._temporary_path)

    def close(self) -> None:
        """Close the socket and remove its name when it is still this one's; idempotent."""
        self.socket.close()
        for path in (self.path, self._temporary_path):
            if self._is_ours(path):
                path.unlink(missing_ok=True)

    def _is_ours(self, path: Path) -> bool:
        try:
            found = path.lstat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._inode


class DataFolderSocket(ListenSocket):
    """The socket of the data folder, whose folder is elsewhere if the path is too long and may be gone at any time."""

    def __init__(self) -> None:
        super().__init__(controller_launch.socket_path())

    def _bind(self) -> None:
        controller_launch.ensure_folders()
        self.path = Path(controller_launch.socket_address())
        super()._bind()

    def is_published(self) -> bool:
        """Return True if clients find this socket: under its name, in the folder that is recorded now."""
        try:
            address = controller_launch.socket_address()
        except FileNotFoundError:
            return False
        return address == os.fspath(self.path) and super().is_published()

    def close(self) -> None:
        """Close the socket, remove its name when it is still this one's, and its folder in /tmp; idempotent."""
        super().close()
        if self.path.parent != controller_launch.data_dir():
            with suppress(OSError):  # sockets of ssh may be in it
                self.path.parent.rmdir()


def peer_uid(connection: socket.socket) -> int:
    """Return the user that opened a Unix socket connection, as the kernel reports it.

    :raises OSError: no Unix socket, or a system that does not report it.
    """
    if hasattr(socket, "SO_PEERCRED"):
        said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(said)[1])
    if sys.platform == "darwin":
        said = connection.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_SIZE)
        return int(_XUCRED.unpack_from(said)[1])
    raise OSError("This system cannot identify the user of a socket connection.")

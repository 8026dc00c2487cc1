"""Watch the names that make a process the controller: its data folder, the file of its records, its lock and socket.

A cleanup program, a backup or a user may delete them while the controller lives, and clients then cannot reach it. If
only the socket is gone, it listens again; otherwise it exits.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.data_folder.file_identity import FileIdentity, read_file_identity

if TYPE_CHECKING:
    from pathlib import Path

LOCK, RECORDS = "controller.lock", "smx.sqlite"
"""Names in the data folder."""


class Loss(Enum):
    """Losses of a controller, the worst first."""

    DATA = "its data folder was deleted"
    """The records are gone, so it ends its agents and exits: no other controller has them in its records."""
    LOCK = "its lock was deleted or replaced"
    """Another controller may run; it exits, and its agents continue."""
    SOCKET = "its socket was deleted"
    """It listens again."""


class FileIdentities(Struct, frozen=True):
    """Which files have the names now; None for a name without a file."""

    folder: FileIdentity | None
    records: FileIdentity | None
    lock: FileIdentity | None


def find_loss(before: FileIdentities, now: FileIdentities, *, is_published: bool) -> Loss | None:
    """Compare the files with those of the start; ``is_published`` is True if clients find the socket. Pure.

    Files that did not exist at the start do not count.
    """
    if now.folder != before.folder or (before.records is not None and now.records is None):
        return Loss.DATA
    if (before.lock is not None and now.lock != before.lock) or now.records != before.records:
        return Loss.LOCK
    return None if is_published else Loss.SOCKET


class FileWatch:
    """The files of one data folder, from the moment on in which this is made."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._before = self._now(FileIdentities(None, None, None))

    def find_loss(self, *, is_published: bool) -> Loss | None:
        """Check the files and return the loss; a file system that does not answer now counts as no loss."""
        return find_loss(self._before, self._now(self._before), is_published=is_published)

    def _now(self, known: FileIdentities) -> FileIdentities:
        return FileIdentities(
            folder=read_file_identity(self._data_dir, known.folder),
            records=read_file_identity(self._data_dir / RECORDS, known.records),
            lock=read_file_identity(self._data_dir / LOCK, known.lock),
        )

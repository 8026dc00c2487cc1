"""Watch the folders, the lock and the key file of the front; apart from the front, because tests watch other files.

A user or a cleanup program may delete them while the front lives. It leaves then, because the next client starts
another one, which would find its port taken or clients that have another key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.data_folder.file_identity import FileIdentity, read_file_identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_UNKNOWN = FileIdentity(0, 0)
"""Of a file whose system did not answer at the start; no file has it."""


class FrontFiles:
    """The files of one front, from the moment on in which this is made; ``losses`` says what the lack of each means.

    A file that is missing then was deleted before, and is lost.
    """

    def __init__(self, losses: Mapping[Path, str]) -> None:
        self._losses = losses
        self._before = {path: read_file_identity(path, _UNKNOWN) for path in losses}

    def find_loss(self) -> str:
        """Return what the first file means that was deleted or replaced; "" if all are as they were.

        A file system that does not answer now counts as no loss.
        """
        for path, before in self._before.items():
            if before is None or (before != _UNKNOWN and read_file_identity(path, before) != before):
                return self._losses[path]
        return ""

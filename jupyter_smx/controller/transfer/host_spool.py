"""Read what a host stored of a job without its agent: from a disk of this machine, or through the engine."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_smx.agent.errors import is_temporary
from jupyter_smx.agent.system.resources.log_limit import punch
from jupyter_smx.agent.wire import MAX_BODY, MAX_RECORD
from jupyter_smx.engines import untrusted_files
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    ReadSpool = Callable[[str, int, int], Awaitable[tuple[bytes, int] | None]]
    """Returns at most ``limit`` bytes of the file ``name`` from ``offset`` on, and its size, as an engine does."""

PIECE = MAX_BODY
LONGEST_RECORD = MAX_RECORD
"""Bytes of an end record, which names every file of every output."""


@dataclass(frozen=True)
class HostSpool:
    """The folder of one job in the spool of one host; every method also works after the end of the host."""

    path: Path | None = None
    """Its path on this machine; None if only the engine can read it."""
    read_piece: ReadSpool | None = None

    async def read(self, name: str, offset: int = 0) -> tuple[bytes, int]:
        """Read a piece of a file, and its size; (b"", 0) if the engine reads no such file.

        :raises UnavailableError: it cannot be read now.
        """
        try:
            found = None if self.read_piece is None else await self.read_piece(name, offset, PIECE)
        except ResourceNotFoundError:
            found = None
        return found or (b"", 0)

    async def size(self, name: str) -> int:
        """Count the bytes of a file; 0 if there is no such file.

        :raises UnavailableError: it cannot be read now.
        """
        if self.path is None:
            return (await self.read(name))[1]
        return await asyncio.to_thread(_size, self.path, name)

    async def is_absent(self, name: str) -> bool | None:
        """Return True if the spool certainly has no such file; None if it cannot be read.

        :raises UnavailableError: it cannot be read now.
        """
        if self.path is not None:
            return await asyncio.to_thread(untrusted_files.is_absent, *spool_location(self.path, name))
        try:
            found = None if self.read_piece is None else await self.read_piece(name, 0, 1)
        except ResourceNotFoundError:
            return True
        return None if found is None else False

    async def read_whole(self, name: str) -> bytes | None:
        """Read a file up to the maximum length of a record; None if it does not exist, is longer, or ends early.

        :raises UnavailableError: it cannot be read now.
        """
        if self.path is not None:
            return await asyncio.to_thread(_read_whole, self.path, name)
        piece, total = await self.read(name)
        content = bytearray(piece)
        while piece and len(content) < total <= LONGEST_RECORD:
            piece, _ = await self.read(name, len(content))
            content += piece
        return bytes(content) if content and len(content) == total <= LONGEST_RECORD else None


def spool_location(folder: Path, name: str) -> tuple[Path, str]:
    """Return the arguments to open a file in a job's folder safely: a job may have replaced it, and the spool."""
    return folder.parent, f"{folder.name}/{name}"


def raise_if_temporary(error: OSError) -> None:
    """Do nothing where a file is surely not there, or is none.

    :raises UnavailableError: the file system fails, so that nothing is known of the file; ask again.
    """
    if is_temporary(error):
        raise UnavailableError(
            f"The files of its host cannot be read now ({error.strerror or error}).",
            field="data_dir",
            value=error.filename,
            cure="The controller will try again.",
            transient=True,
        ) from error


def free_copied(folder: Path, name: str, begin: int, end: int) -> bool:
    """Free the disk blocks of bytes that are in the job's folder now; return False if the system cannot."""
    try:
        with untrusted_files.open_file(*spool_location(folder, name), writable=True) as file:
            return file.has_one_name() and punch(file.file.fileno(), begin, end)
    except OSError:
        return False


def empty_copied(folder: Path, name: str, copied: int) -> None:
    """Empty the file of an ended job whose first ``copied`` bytes are in the job's folder, if that is all of it."""
    with suppress(OSError), untrusted_files.open_file(*spool_location(folder, name), writable=True) as file:
        if file.has_one_name() and file.size() <= copied:
            os.ftruncate(file.file.fileno(), 0)


def _size(folder: Path, name: str) -> int:
    try:
        with untrusted_files.open_file(*spool_location(folder, name)) as file:
            return file.size()
    except OSError as error:
        raise_if_temporary(error)
        return 0


def _read_whole(folder: Path, name: str) -> bytes | None:
    try:
        return untrusted_files.read(*spool_location(folder, name), LONGEST_RECORD)
    except OSError as error:
        raise_if_temporary(error)
        return None

"""Cache the archives of source folders by the status of their files, for all processes of a user.

Each entry is a small file beside the archives, named by a fingerprint of the files. Archive and entry appear by a
rename, so that kernels and terminals may read and write them at the same time. Like all unused files there, both are
deleted after a day.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.rerun_spec import touch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.kernel.request.source_archive import SourceFile

SUFFIX = ".tar.gz"
"""Suffix of an archive's name, after its SHA-256."""
_ENTRY_SUFFIX = ".packed.json"
_FORMAT = "1"
"""Format of archives: another value invalidates all entries."""


class _Entry(msgspec.Struct, frozen=True):
    """An archive: its SHA-256, and the state of its file, which shows if it was damaged."""

    sha256: str
    size: int
    mtime_ns: int


def fingerprint(files: Iterable[SourceFile]) -> str:
    """Return a SHA-256 of names and states of files: equal ones have equal content, so an equal archive."""
    lines = [
        f"{name}\0{size} {mtime_ns} {ctime_ns} {inode} {is_executable}"
        for name, _path, (size, mtime_ns, ctime_ns, inode, is_executable) in files
    ]
    return hashlib.sha256("\0".join([_FORMAT, *lines]).encode(errors="surrogateescape")).hexdigest()


def find(payloads: Path, name: str) -> str:
    """Return the SHA-256 of the archive with a fingerprint, and mark it as used; "" if there is none that is whole."""
    entry = payloads / f"{name}{_ENTRY_SUFFIX}"
    try:
        known = msgspec.json.decode(entry.read_bytes(), type=_Entry)
        archive = payloads / f"{known.sha256}{SUFFIX}"
        is_whole = _describe(archive, known.sha256) == known
    except (OSError, ValueError):  # a msgspec.DecodeError is one
        return ""
    return known.sha256 if is_whole and touch(str(archive)) and touch(str(entry)) else ""


def _describe(archive: Path, digest: str) -> _Entry:
    found = archive.stat()
    return _Entry(digest, found.st_size, found.st_mtime_ns)


def store(payloads: Path, name: str, archive: Path, digest: str) -> None:
    """Write an entry; without room on the disk the folder is packed again the next time."""
    with suppress(OSError):
        content = msgspec.json.encode(_describe(archive, digest))
        descriptor, part = tempfile.mkstemp(dir=payloads, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(part).replace(payloads / f"{name}{_ENTRY_SUFFIX}")
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

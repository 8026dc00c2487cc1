"""Delete variables and archives of source folders that kernels packed and that no job needs any more."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

UNUSED_AGE = 86_400.0
"""Seconds after which files that no live job needs are deleted."""
MAX_ARCHIVE_BYTES = 4 << 30
"""Bytes of unused archives of source folders. Beyond it those are deleted first that were not used for longest."""
_GRACE = 600.0
"""Seconds for which a kernel may have packed a file and not submitted its job yet."""
_ARCHIVE = ".tar.gz"


class PackedFile(NamedTuple):
    """A file that no live job needs; ``used`` is when it was written or used last, in seconds since the epoch."""

    path: Path
    used: float
    size: int
    names: int
    """Hard links: the folder of a job has another name of it, so that deleting it would free nothing."""


def delete_unused_payloads(payloads: Path, needed: Iterable[str], now: float) -> None:
    """Delete files that no live job needs and that are old, or too large together; ``needed`` are paths. Blocks."""
    kept = {os.path.realpath(path) for path in needed}
    unused = [file for file in _list_files(payloads) if os.path.realpath(file.path) not in kept]
    for file in choose_files(unused, now):
        with suppress(OSError):  # another process may delete it first
            file.path.unlink()


def choose_files(
    unused: Iterable[PackedFile], now: float, max_archive_bytes: int = MAX_ARCHIVE_BYTES
) -> list[PackedFile]:
    """Choose the files to delete: those that are older than a day, and archives beyond their limit.

    An archive can be packed again, and variables cannot.
    """
    chosen: list[PackedFile] = []
    size = 0
    for file in sorted(unused, key=lambda file: file.used, reverse=True):
        age = now - file.used
        is_archive = file.path.name.endswith(_ARCHIVE) and file.names == 1
        size += file.size if is_archive else 0
        if age > UNUSED_AGE or (is_archive and size > max_archive_bytes and age > _GRACE):
            chosen.append(file)
    return chosen


def _list_files(payloads: Path) -> Iterator[PackedFile]:
    for path in payloads.glob("*"):
        with suppress(OSError):
            if path.is_file():
                found = path.stat()
                yield PackedFile(path, max(found.st_mtime, found.st_atime), found.st_size, found.st_nlink)

"""Makes one archive of those that several hosts wrote."""

from __future__ import annotations

import tarfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def merge(archives: Sequence[Path], target: Path) -> None:
    """Write the members of all ``archives`` to ``target``; of equal names the last archive's stays.

    Blocks. Nothing is unpacked and no member is held in memory.

    :raises OSError: disk full.
    :raises tarfile.TarError: one of them is no archive.
    """
    taken = _MergedNames()
    with tarfile.open(target, "w:gz", compresslevel=6) as merged:
        for archive in reversed(archives):
            with tarfile.open(archive, "r:gz") as source:
                for member in source:
                    if taken.add(member):
                        if member.islnk() and taken.hides(member.linkname):
                            _part(member, source)
                        merged.addfile(member, source.extractfile(member) if member.isreg() else None)
            taken.next_archive()


def _part(member: tarfile.TarInfo, source: tarfile.TarFile) -> None:
    """Make a second name of a file a file of its own: its first name has what a later archive put there."""
    first = source.getmember(member.linkname)
    member.type, member.size, member.offset_data, member.linkname = first.type, first.size, first.offset_data, ""
    member.pax_headers = {name: value for name, value in member.pax_headers.items() if name != "linkpath"}


class _MergedNames:
    """The names that later archives have given: a file hides whatever an earlier one had at or under its path."""

    def __init__(self) -> None:
        self._files: set[PurePosixPath] = set()
        self._folders: set[PurePosixPath] = set()
        self._new_files: set[PurePosixPath] = set()
        self._new_folders: set[PurePosixPath] = set()

    def add(self, member: tarfile.TarInfo) -> bool:
        path = PurePosixPath(member.name)
        if self.hides(member.name):
            return False
        (self._new_folders if member.isdir() else self._new_files).add(path)
        self._new_folders.update(path.parents)
        return True

    def hides(self, name: str) -> bool:
        path = PurePosixPath(name)
        return path in self._files or not self._files.isdisjoint(path.parents) or path in self._folders

    def next_archive(self) -> None:
        self._files |= self._new_files
        self._folders |= self._new_folders

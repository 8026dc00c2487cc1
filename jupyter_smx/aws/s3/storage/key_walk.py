"""Walk the keys of a bucket in the order of S3, which is that of their bytes, without reading more than is needed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx.aws.s3.forms.object_keys import split_key
from jupyter_smx.aws.s3.storage.layout import is_below
from jupyter_smx.aws.service import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WalkEntry(NamedTuple):
    """A key with the state of its file, or the common prefix of all keys in a folder."""

    name: str
    stat: os.stat_result | None
    """None for a common prefix and for the marker of a folder."""
    is_prefix: bool = False


@dataclass(frozen=True)
class KeyWalk:
    """A walk over the keys of a bucket that begin with ``prefix`` and come after ``after``."""

    folder: str
    """The bucket's folder."""
    is_marker: Callable[[str], bool]
    """Return True for a key with a slash at its end that a client put as an object."""
    prefix: str = ""
    after: str = ""
    is_folded: bool = False
    """True to give one common prefix for all keys of a folder below the prefix, as the delimiter ``/`` asks."""

    def __iter__(self) -> Iterator[WalkEntry]:
        """Yield the entries in order; files that vanish meanwhile are left out."""
        base = self.prefix[: self.prefix.rfind("/") + 1]
        if not self._is_readable(base):
            return
        if base and base == self.prefix and base > self.after and self.is_marker(base):
            yield WalkEntry(base, None)
        stack = [self._scan(base)]
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop()
            elif not entry.name.endswith("/"):
                yield from self._file(entry)
            elif self.is_folded:
                yield from self._common_prefix(entry.name)
            else:
                if entry.name > self.after and self.is_marker(entry.name):
                    yield WalkEntry(entry.name, None)
                stack.append(self._scan(entry.name))

    def _is_readable(self, base: str) -> bool:
        """Return True if the folder that a prefix names is one of the bucket, and reached without a link."""
        if not base:
            return True
        try:
            path = "/".join((self.folder, *split_key(base).names))
        except AwsError:
            return False
        return os.path.realpath(path) == os.path.realpath(self.folder) + path[len(self.folder) :]

    def _scan(self, base: str) -> Iterator[_Scanned]:
        """Yield the entries of a folder in the order of their keys, those of folders with a slash."""
        try:
            with os.scandir(f"{self.folder}/{base}") as entries:
                found = [scanned for entry in entries if (scanned := self._key_of(base, entry))]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return
        yield from sorted(found)

    def _key_of(self, base: str, entry: os.DirEntry[str]) -> _Scanned | None:
        """Return the key of an entry; None for one that is none, or that the prefix or the place leave out."""
        is_folder = entry.is_dir(follow_symlinks=False)
        key = f"{base}{entry.name}/" if is_folder else base + entry.name
        if not key.startswith(self.prefix) or not _is_text(entry.name):
            return None
        is_later = key > self.after or (is_folder and self.after.startswith(key))
        return _Scanned(key, entry.path) if is_later else None

    def _file(self, entry: _Scanned) -> Iterator[WalkEntry]:
        try:
            if os.path.islink(entry.path) and not is_below(os.path.realpath(entry.path), os.path.realpath(self.folder)):
                return
            stat = os.stat(entry.path)
        except OSError:
            return
        if os.path.isfile(entry.path):
            yield WalkEntry(entry.name, stat)

    def _common_prefix(self, name: str) -> Iterator[WalkEntry]:
        if name != self.after and any(True for _ in KeyWalk(self.folder, self.is_marker, name, self.after)):
            yield WalkEntry(name, None, is_prefix=True)


class _Scanned(NamedTuple):
    name: str
    path: str


def _is_text(name: str) -> bool:
    """Return False for names that are not UTF-8, which no key can be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Walk through folders and create them, however deep they are.

``os.walk``, before Python 3.12, and ``os.makedirs`` call themselves for each level.
"""

from __future__ import annotations

import errno
import os
from typing import Callable, Iterator, List, Optional, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple


class Level(NamedTuple):
    """One folder of a walk: its path, its name below the first one ("" of that), and its entries, sorted by name.

    ``files`` are all entries that the walk does not enter.
    """

    path: str
    name: str
    folders: List["os.DirEntry[str]"]
    files: List["os.DirEntry[str]"]

    def inner(self, entry: "os.DirEntry[str]") -> str:
        """Name an entry of this folder below the first one."""
        return os.path.join(self.name, entry.name)


class LoopError(OSError):
    """A link leads back to a folder that it lies in; ``filename`` is its path."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "it links to a folder that contains it", path)


def raise_error(error: OSError) -> None:
    """Raise the error of a folder that cannot be read."""
    raise error


def raise_unless_loop(error: OSError) -> None:
    """Raise the error, unless a link leads back: its target is found already."""
    if not isinstance(error, LoopError):
        raise error


def descend(
    top: str,
    *,
    follow: bool = False,
    on_error: Callable[[OSError], None] = raise_error,
    drop_link: Optional[Callable[[str], bool]] = None,
) -> Iterator[Level]:
    """Yield a folder, then its subfolders with theirs, in the order of names; links are followed only on request.

    ``on_error`` is called for each folder that cannot be read; the folder is skipped unless it raises. ``drop_link`` is
    called with the path of each link; the link is skipped if it returns True.

    :raises OSError: a folder cannot be read, or what ``drop_link`` raises.
    :raises LoopError: a followed link leads to a folder that contains it.
    """
    waiting: List[Tuple[str, str, Tuple[Tuple[int, int], ...]]] = [(top, "", ())]
    while waiting:
        path, name, above = waiting.pop()
        try:
            inside = (*above, _identity(path, above)) if follow else above
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            on_error(error)
            continue
        if drop_link is not None:  # its errors are of a link, and no reason to skip the folder
            entries = [entry for entry in entries if not (entry.is_symlink() and drop_link(entry.path))]
        folders = {entry.name: entry for entry in entries if _is_folder(entry, follow=follow)}
        level = Level(path, name, list(folders.values()), [entry for entry in entries if entry.name not in folders])
        yield level
        waiting += [(entry.path, level.inner(entry), inside) for entry in reversed(level.folders)]


def _is_folder(entry: "os.DirEntry[str]", *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a link that leads to itself
        return False


def _identity(path: str, above: Tuple[Tuple[int, int], ...]) -> Tuple[int, int]:
    found = os.stat(path)
    me = (found.st_dev, found.st_ino)
    if me in above:
        raise LoopError(path)
    return me


def make_folders(path: str) -> None:
    """Create a folder and its missing parents; an existing folder is left unchanged.

    :raises OSError: something else has its name, or it cannot be created.
    """
    missing: List[str] = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, exist_ok=True)

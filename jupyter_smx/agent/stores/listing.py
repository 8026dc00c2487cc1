"""List a channel before it is read: its files and folders, and what distinguishes versions of them."""

from __future__ import annotations

import os
import stat
from typing import Callable, List, Optional, Tuple

from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.files.walk import LoopError, descend
from jupyter_smx.agent.system.named_tuple import NamedTuple


class ListingError(RefusalError):
    """The content of a source cannot be an input."""


class Item(NamedTuple):
    """One file of a channel: its name there, its mode, its source, and what identifies its content."""

    name: str
    mode: int
    file: digest.ChannelFile

    @property
    def fingerprint(self) -> List[object]:
        """Return the fields that :data:`digest.DigestCache` compares."""
        return [self.file.size, self.file.mtime_ns, list(self.file.identity)]


class ChannelListing(NamedTuple):
    """The complete content of a channel."""

    items: List[Item]
    folders: List[str]

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(item.file.size for item in self.items)


def _item(name: str, path: str, found: os.stat_result, now: float) -> Item:
    if not stat.S_ISREG(found.st_mode):
        raise ListingError(f"{path!r} is neither a file nor a folder, so it cannot be an input.")
    identity = (found.st_dev, found.st_ino, found.st_ctime_ns)
    settled = now - found.st_mtime > digest.RACY
    file = digest.ChannelFile(name, path, found.st_size, found.st_mtime_ns, identity, settled)
    return Item(name, stat.S_IMODE(found.st_mode), file)


def list_sources(
    pairs: List[Tuple[str, str]], now: float, drop_link: Optional[Callable[[str], bool]] = None
) -> ChannelListing:
    """List all files of a channel; links are followed, except those that ``drop_link`` leaves out.

    :raises ListingError: a link leads to a folder that contains it, or an entry is neither file nor folder.
    :raises OSError: an entry does not exist or cannot be read.
    """
    found = ChannelListing([], [])
    for name, path in pairs:
        known = os.stat(path)
        if stat.S_ISDIR(known.st_mode):
            _list_folder(found, (name, path), now, drop_link)
        else:
            found.items.append(_item(name, path, known, now))
    return found


def _list_folder(
    found: ChannelListing, pair: Tuple[str, str], now: float, drop_link: Optional[Callable[[str], bool]]
) -> None:
    name, path = pair
    try:
        for level in descend(path, follow=True, drop_link=drop_link):
            found.folders.append(os.path.join(name, level.name) if level.name else name)
            for entry in level.files:
                found.items.append(_item(os.path.join(name, level.inner(entry)), entry.path, entry.stat(), now))
    except LoopError as error:
        raise ListingError(
            f"{error.filename!r} links to a folder that contains it, so it cannot be an input."
        ) from None

"""Resolve links in the source of an input, also if the host hides their targets."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import deque
from typing import Callable, List, Optional, Set, Tuple

from jupyter_smx.agent.channels.broken_links import leads_nowhere
from jupyter_smx.agent.paths import machine_path, visible_path
from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.agent.system.named_tuple import NamedTuple

_MAX_ENTRIES = 20_000
"""Entries of a folder and of those in it that are looked at, as many as get links of their own."""
_SECONDS = 0.25
"""Maximum seconds to scan one channel: on a network disk each folder takes milliseconds."""
_MIN_STEPS = 64
"""Folders and links that are looked at however long it takes, since a busy machine is no slow disk."""
_MAX_ENTRIES_PER_CHANNEL = 100_000
"""Entries of one channel that are looked at, also in the folders that its links lead to: no start may wait for more."""


def format_missing_file(path: str, hidden: Tuple[Tuple[str, str], ...]) -> str:
    """Return why a file of a channel is not found, by the name that it has for the user."""
    named = machine_path(path, hidden)
    link = _text(path)
    if not os.path.exists(visible_path(link, hidden)):
        return f"{named!r} no longer exists."
    return (
        f"{named!r} is a link to {link!r}, which does not exist on this host, because its jobs have their own folder "
        "there. Use a relative link, or move the data."
    )


def _text(path: str) -> str:
    """Return the text of a link; "" if the path is no link or is not readable."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


class LinkScan:
    """Finds folders with links that lead out of them; scans each folder once, and completely if it is not too large.

    If such a folder is shown elsewhere, these links are broken, and so are absolute links, wherever they lead.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent = 0.0
        self._steps = 0
        self._scanned_folders: Set[str] = set()
        self._entry_budget = _MAX_ENTRIES_PER_CHANNEL
        self._closed_folders: Set[str] = set()
        self._outbound_folders: Set[str] = set()
        self._folders_with_broken_links: Set[str] = set()
        self.is_sure = True
        """False if a folder that was reported to have no outbound links was scanned only in part."""

    def has_outbound_links(self, folder: str) -> bool:
        """Return True if links lead out of a folder, which is named as :func:`accessible_path` does; a quick look."""
        if (
            folder not in self._outbound_folders
            and folder not in self._closed_folders
            and folder not in self._scanned_folders
        ):
            self._scanned_folders.add(folder)
            began = self._clock()
            is_whole = self._look(folder, began)
            self._spent += self._clock() - began
            self.is_sure = self.is_sure and (is_whole or folder in self._outbound_folders)
        return folder in self._outbound_folders

    def has_broken_links(self, folder: str) -> bool:
        """Return True if a folder, named as for :meth:`has_outbound_links`, has links in it that lead nowhere."""
        self.has_outbound_links(folder)
        return folder in self._folders_with_broken_links

    def _is_late(self, began: float) -> bool:
        self._steps += 1
        return self._steps > _MIN_STEPS and self._spent + self._clock() - began > _SECONDS

    def _look(self, top: str, began: float) -> bool:
        """Scan a folder and its subfolders; return False if it has more entries than the limit, or takes too long."""
        waiting, seen, most, is_whole = deque([top]), [], min(_MAX_ENTRIES, self._entry_budget), True
        while waiting and is_whole:
            if self._is_late(began):
                return False
            folder = waiting.popleft()
            found = _sample_folder(folder, most)
            most, is_whole = most - found.number, found.is_whole
            self._entry_budget -= found.number
            waiting.extend(found.folders)
            for path in found.links:
                if self._is_late(began):
                    return False
                self._mark(self._outbound_folders, folder, top, _link_target(path, folder))
                if _is_broken(path):
                    self._mark(self._folders_with_broken_links, folder, top, "")
            seen.append(folder)
        if is_whole:
            self._closed_folders.update(seen)
        return is_whole

    @staticmethod
    def _mark(marked: Set[str], folder: str, top: str, lead: str) -> None:
        """Add the folders that a link leads out of to ``marked``, from its own one up to ``top``."""
        while not lead.startswith(folder + os.sep):
            marked.add(folder)
            if folder in (top, os.path.dirname(folder)):
                return
            folder = os.path.dirname(folder)


class _FolderSample(NamedTuple):
    """The content of a folder: number of entries, whether these are all, and paths of links and folders."""

    number: int
    is_whole: bool
    links: List[str]
    folders: List[str]


def _sample_folder(folder: str, most: int) -> _FolderSample:
    """Return the first ``most`` entries of a folder; none if it is not readable."""
    number, is_whole, linked, inner = 0, True, [], []  # type: int, bool, List[str], List[str]
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in itertools.islice(found, most):
            number += 1
            if entry.is_symlink():
                linked.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
        is_whole = next(found, None) is None
    return _FolderSample(number, is_whole, linked, inner)


def _is_broken(link: str) -> bool:
    """Return True if a link leads nowhere; for other errors of its target False, so that its reader gets them."""
    try:
        return leads_nowhere(link)
    except OSError:
        return False


def _link_target(path: str, folder: str) -> str:
    """Name what a link in a folder leads to, with other links on its way as they are; "" of one by a whole path."""
    text = _text(path)
    if text.startswith(os.sep):
        return ""
    if os.pardir not in text and text != os.curdir:
        return os.path.join(folder, text)
    rest = text.lstrip("./").split(os.sep)
    if os.pardir in rest:  # up again from where another link may have led
        text = os.path.relpath(real_path(path), real_path(folder))
    return os.path.normpath(os.path.join(folder, text))


def has_outbound_links(folder: str, ways: Optional[LinkScan] = None) -> bool:
    """Return True if a folder has links that lead out of it. ``ways`` has the links that were read already."""
    return (ways or LinkScan()).has_outbound_links(accessible_path(folder))


def real_path(path: str) -> str:
    """Name what a path leads to; below a folder that is hidden, ``realpath`` would look into the one that hides it."""
    try:
        opened = os.open(path, os.O_PATH)
    except AttributeError:  # not Linux, and other systems hide no folders
        return os.path.realpath(path)
    except OSError:  # it leads nowhere, or permissions are missing
        whole = os.path.abspath(path)
        return os.path.normpath(os.path.join(os.path.dirname(whole), _text(whole) or whole))
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    finally:
        os.close(opened)


def accessible_path(path: str) -> str:
    """Name what a path leads to by a name under which it is found: below a hidden folder only its own is."""
    found = real_path(path)
    try:
        return found if os.path.samefile(found, path) else os.path.abspath(path)
    except OSError:
        return os.path.abspath(path) if os.path.exists(path) else found


class ChannelFiles(NamedTuple):
    """Folders by name, and files and links to folders by name and path."""

    folders: List[str]
    files: List[Tuple[str, str]]


def _ignore_error(error: OSError) -> None:
    """Leave out a folder that is closed to us."""


def list_files(pairs: List[Tuple[str, str]], drop_link: Callable[[str], bool]) -> ChannelFiles:
    """List what is in the folders of a channel, for a walk through it passes over those that are links.

    Links that ``drop_link`` names are left out.
    """
    found = ChannelFiles([], [])
    for name, source in pairs:
        if not os.path.isdir(source):
            found.files.append((name, source))
            continue
        for level in descend(source, on_error=_ignore_error, drop_link=drop_link):
            found.folders.append(os.path.normpath(os.path.join(name, level.name)))
            found.files.extend(
                (os.path.normpath(os.path.join(name, level.inner(one))), one.path) for one in level.files
            )
    return found

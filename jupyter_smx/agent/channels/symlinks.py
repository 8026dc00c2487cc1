"""Links in the source of an input: where they lead, also where a host hides what they lead to."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import deque
from typing import Callable, List, NamedTuple, Optional, Set, Tuple

from jupyter_smx.agent.paths import named_outside, seen_at
from jupyter_smx.agent.system.files.walk import descend

_LOOKED_AT = 20_000
"""Entries of a folder and of those in it that are looked at, as many as get links of their own."""
_SECONDS = 0.25
"""How long one channel is looked at: on a disk in the network each folder takes milliseconds."""
_AT_LEAST = 64
"""Folders and links that are looked at however long it takes, since a busy machine is no slow disk."""
_IN_ALL = 100_000
"""Entries of one channel that are looked at, also in the folders that its links lead to: no start may wait for more."""


def lost(path: str, hidden: Tuple[Tuple[str, str], ...]) -> str:
    """Say why a file of a channel is not found, by the name that it has for the user."""
    named = named_outside(path, hidden)
    link = _text(path)
    if not os.path.exists(seen_at(link, hidden)):
        return f"{named!r} is not there any more."
    return (
        f"{named!r} is a link to {link!r}, which is not found on this host: its jobs have a folder of their own there. "
        "Make the link a relative one, or keep the data elsewhere."
    )


def _text(path: str) -> str:
    """Give what a link says; "" of what is none, or is closed to us."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


class WaysOut:
    """Which folders have links that lead out of them; each is looked at once, and as a whole if it is not too large.

    Where a folder is shown they would lead nowhere, and those by a whole path, wherever that leads, past what shows it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent = 0.0
        self._steps = 0
        self._tried: Set[str] = set()
        self._left = _IN_ALL
        self._known: Set[str] = set()
        self._open: Set[str] = set()
        self.is_sure = True
        """Whether all is looked at of each folder of which it was said that no link leads out."""

    def has(self, folder: str) -> bool:
        """Say whether links lead out of a folder, which is named as :func:`reached` does; a quick look."""
        if folder not in self._open and folder not in self._known and folder not in self._tried:
            self._tried.add(folder)
            began = self._clock()
            is_whole = self._look(folder, began)
            self._spent += self._clock() - began
            self.is_sure = self.is_sure and (is_whole or folder in self._open)
        return folder in self._open

    def _is_late(self, began: float) -> bool:
        self._steps += 1
        return self._steps > _AT_LEAST and self._spent + self._clock() - began > _SECONDS

    def _look(self, top: str, began: float) -> bool:
        """Look at what is in a folder and in those in it; False where that is more than is looked at."""
        waiting, seen, most, is_whole = deque([top]), [], min(_LOOKED_AT, self._left), True
        while waiting and is_whole:
            if self._is_late(began):
                return False
            folder = waiting.popleft()
            found = _some(folder, most)
            most, is_whole = most - found.number, found.is_whole
            self._left -= found.number
            waiting.extend(found.folders)
            for path in found.links:
                if self._is_late(began):
                    return False
                self._mark(folder, top, _lead(path, folder))
            seen.append(folder)
        if is_whole:
            self._known.update(seen)
        return is_whole

    def _mark(self, folder: str, top: str, lead: str) -> None:
        """Take down which folders a link leads out of, from its own one up to ``top``."""
        while not lead.startswith(folder + os.sep):
            self._open.add(folder)
            if folder == top:
                return
            folder = os.path.dirname(folder)


class _Some(NamedTuple):
    """What is in a folder: how many entries, whether these are all, and the paths of links and folders among them."""

    number: int
    is_whole: bool
    links: List[str]
    folders: List[str]


def _some(folder: str, most: int) -> _Some:
    """Give what is in a folder, or the first of it; nothing of one that is closed to us."""
    number, is_whole, linked, inner = 0, True, [], []  # type: int, bool, List[str], List[str]
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in itertools.islice(found, most):
            number += 1
            if entry.is_symlink():
                linked.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                inner.append(entry.path)
        is_whole = next(found, None) is None
    return _Some(number, is_whole, linked, inner)


def _lead(path: str, folder: str) -> str:
    """Name what a link in a folder leads to, with other links on its way as they are; "" of one by a whole path."""
    text = _text(path)
    if text.startswith(os.sep):
        return ""
    if os.pardir not in text and text != os.curdir:
        return os.path.join(folder, text)
    rest = text.lstrip("./").split(os.sep)
    if os.pardir in rest:  # up again from where another link may have led
        text = os.path.relpath(real(path), real(folder))
    return os.path.normpath(os.path.join(folder, text))


def lead_out(folder: str, ways: Optional[WaysOut] = None) -> bool:
    """Say whether a folder has links that lead out of it; a quick look. ``ways`` is what is known of links already."""
    return (ways or WaysOut()).has(reached(folder))


def real(path: str) -> str:
    """Name what a path leads to; below a folder that is hidden, ``realpath`` would look into the one that hides it."""
    try:
        opened = os.open(path, os.O_PATH)
    except AttributeError:  # no Linux, and nowhere else is a folder hidden
        return os.path.realpath(path)
    except OSError:  # it leads nowhere, or nobody may look
        whole = os.path.abspath(path)
        return os.path.normpath(os.path.join(os.path.dirname(whole), _text(whole) or whole))
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    finally:
        os.close(opened)


def reached(path: str) -> str:
    """Name what a path leads to by a name under which it is found: below a hidden folder only its own is."""
    found = real(path)
    try:
        return found if os.path.samefile(found, path) else os.path.abspath(path)
    except OSError:
        return os.path.abspath(path) if os.path.exists(path) else found


class Files(NamedTuple):
    """What folders hold: the names of folders in them, and each file, or link to a folder, by its name and path."""

    folders: List[str]
    files: List[Tuple[str, str]]


def _pass_over(error: OSError) -> None:
    """Leave out a folder that is closed to us."""


def each_file(pairs: List[Tuple[str, str]]) -> Files:
    """List what is in the folders of a channel, for a walk through it passes over those that are links."""
    found = Files([], [])
    for name, source in pairs:
        if not os.path.isdir(source):
            found.files.append((name, source))
            continue
        for level in descend(source, on_error=_pass_over):
            found.folders.append(os.path.normpath(os.path.join(name, level.name)))
            found.files.extend(
                (os.path.normpath(os.path.join(name, level.inner(one))), one.path) for one in level.files
            )
    return found

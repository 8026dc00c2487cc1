"""Links in the source of an input: where they lead, also where a host hides what they lead to."""

from __future__ import annotations

import os
from collections import deque
from typing import List, NamedTuple, Tuple

from jupyter_smx.agent.place import named_outside, seen_at
from jupyter_smx.agent.system.descent import descend

_LOOKED_AT = 2_000
"""Entries of a folder and of those in it that are looked at: the first links tell what the others are like."""


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


def lead_out(folder: str) -> bool:
    """Say whether a folder has links that lead out of it; a quick look.

    Where it is shown they would lead nowhere, and those by a whole path, wherever that leads, past what shows it.
    """
    top = real(folder) + os.sep
    waiting, looked = deque([folder]), 0
    while waiting and looked < _LOOKED_AT:
        for path, is_link, is_folder in _entries(waiting.popleft()):
            looked += 1
            if is_link and (os.path.isabs(_text(path)) or not real(path).startswith(top)):
                return True
            if is_folder:
                waiting.append(path)
            if looked == _LOOKED_AT:
                break
    return False


def _entries(folder: str) -> List[Tuple[str, bool, bool]]:
    """Give what is in a folder, and of each whether it is a link, or a folder itself; nothing of one that is closed."""
    try:
        with os.scandir(folder) as found:
            return [(one.path, one.is_symlink(), one.is_dir(follow_symlinks=False)) for one in found]
    except OSError:
        return []


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

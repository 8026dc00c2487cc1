"""Links in the source of an input: where they lead, also where a host hides what they lead to."""

from __future__ import annotations

import itertools
import math
import os
from typing import List, NamedTuple, Optional, Tuple, overload

from jupyter_smx.agent.place import named_outside, seen_at

_LOOKED_AT = 1_000
"""Entries of a folder that are looked at: the first of its links tell what the others are like."""


def lost(path: str, hidden: Tuple[Tuple[str, str], ...]) -> str:
    """Say why a file of a channel is not found, by the name that it has for the user."""
    named = named_outside(path, hidden)
    link = os.readlink(path) if os.path.islink(path) else ""
    if not os.path.exists(seen_at(link, hidden)):
        return f"{named!r} is not there any more."
    return (
        f"{named!r} is a link to {link!r}, which is not found on this host: its jobs have a folder of their own there. "
        "Make the link a relative one, or keep the data elsewhere."
    )


def lead_out(source: str, hidden: Tuple[Tuple[str, str], ...]) -> bool:
    """Say whether a folder has links that lead out of it, and so would lead nowhere where it is shown; a quick look.

    A link by a whole path that jobs cannot see does so, also where it means the folder itself.
    """
    if not os.path.isdir(source):
        return False
    own = real(source) + os.sep
    with os.scandir(source) as found:
        links = (entry.path for entry in itertools.islice(found, _LOOKED_AT) if entry.is_symlink())
        return any(_is_hidden(os.readlink(link), hidden) or not real(link).startswith(own) for link in links)


def _is_hidden(path: str, hidden: Tuple[Tuple[str, str], ...]) -> bool:
    return seen_at(path, hidden) != path


def home(path: str, own: str) -> str:
    """Name the folder to show in order to show what really is at ``path``: the channel's ``own``, or one beside it."""
    if path.startswith(own + os.sep):
        return own
    return path if os.path.isdir(path) else os.path.dirname(path)


def real(path: str) -> str:
    """Name what a path leads to; below a folder that is hidden, ``realpath`` would look into the one that hides it."""
    try:
        opened = os.open(path, os.O_PATH)
    except AttributeError:  # no Linux, and nowhere else is a folder hidden
        return os.path.realpath(path)
    except OSError:  # it leads nowhere
        return os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    finally:
        os.close(opened)


class Files(NamedTuple):
    """What folders hold: the names of folders in them, and each file, or link to a folder, by its name and path."""

    folders: List[str]
    files: List[Tuple[str, str]]


@overload
def each_file(pairs: List[Tuple[str, str]]) -> Files: ...


@overload
def each_file(pairs: List[Tuple[str, str]], most: float) -> Optional[Files]: ...


def each_file(pairs: List[Tuple[str, str]], most: float = math.inf) -> Optional[Files]:
    """List what is in the folders of a channel, for a walk through it passes over those that are links.

    None where there are more than ``most`` files and folders.
    """
    found = Files([], [])
    for name, source in pairs:
        if not os.path.isdir(source):
            found.files.append((name, source))
            continue
        for top, folders, files in os.walk(source):
            inside = os.path.normpath(os.path.join(name, os.path.relpath(top, source)))
            linked = [one for one in folders if os.path.islink(os.path.join(top, one))]
            found.folders.append(inside)
            found.files.extend((os.path.join(inside, one), os.path.join(top, one)) for one in [*files, *linked])
            if len(found.folders) + len(found.files) > most:
                return None
    return found

"""Find the targets of links that lead out of a channel, and the folders that the host shows for them."""

from __future__ import annotations

import os
from collections import deque
from typing import Callable, Deque, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent.channels import symlinks
from jupyter_smx.agent.system.named_tuple import NamedTuple

_MAX_FILES = 20_000
"""Maximum number of files and folders of a channel that get a link each: the job's start waits for them."""
_MAX_VIEWS = 32
"""Folders that one channel is shown from at most, for each is a mount."""


class TooManyTargetsError(Exception):
    """A channel has too many files, or too many folders that contain them; the text names the limit."""


class LinkTargets(NamedTuple):
    """The content of a channel, by names in the channel."""

    folders: List[str]
    shown: List[Tuple[str, str]]
    """Files and whole folders, each with the path where it really is."""
    loops: List[Tuple[str, str]]
    """Links back to a folder that they lie in, each with the name of that in the channel."""


def resolve_links(
    pairs: List[Tuple[str, str]],
    source: str = "",
    ways: Optional[symlinks.LinkScan] = None,
    drop_link: Callable[[str], bool] = lambda _path: False,
) -> LinkTargets:
    """Follow the links of a channel; show a folder as a whole if none of its links is broken or leads out of it.

    ``source`` is the folder of the channel, or "" if it has no single folder. ``ways`` has the links that were read
    already. Links for which ``drop_link`` returns True are left out.

    :raises TooManyError: more files and folders need a link than the limit allows.
    """
    found, reached, ways = LinkTargets([], [], []), _PathResolver(), ways or symlinks.LinkScan()
    top = {source: ""} if source else {}
    waiting: Deque[Tuple[str, str, Dict[str, str]]] = deque((name, path, top) for name, path in pairs)
    most = len(pairs) + _MAX_FILES
    while waiting:
        name, path, above = waiting.popleft()
        if drop_link(path):
            continue
        there = reached.resolve(path)
        if there in above:
            found.loops.append((name, above[there]))
        elif (names := _to_walk(there, ways)) is None:
            found.shown.append((name, there))
        else:
            found.folders.append(name)
            here = {**above, there: name}
            waiting.extend((os.path.join(name, one), os.path.join(there, one), here) for one in names)
        if len(found.folders) + len(found.shown) + len(waiting) > most:
            raise TooManyTargetsError(f"it has links to targets outside it, and more than {_MAX_FILES} files")
    return found


class _PathResolver:
    """Resolves paths; the folder of each path is looked up once."""

    def __init__(self) -> None:
        self._folders: Dict[str, str] = {}

    def resolve(self, path: str) -> str:
        if os.path.islink(path):
            return symlinks.accessible_path(path)
        top, name = os.path.split(os.path.abspath(path))
        if top not in self._folders:
            self._folders[top] = symlinks.accessible_path(top)
        return os.path.join(self._folders[top], name)


def _to_walk(path: str, ways: symlinks.LinkScan) -> Optional[List[str]]:
    """Return the names in a folder with broken or outbound links; None for any other path, or if it is unreadable."""
    if not os.path.isdir(path) or not os.access(path, os.X_OK):
        return None
    if not ways.has_outbound_links(path) and not ways.has_broken_links(path):
        return None
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def view_folders(shown: List[Tuple[str, str]], own: str) -> Dict[str, str]:
    """Choose the folders to show so that all files are visible; return the chosen folder for each existing path.

    ``own`` is the channel's own folder, or "". If more folders than the limit would be needed, the deepest ones are
    replaced by their parents.

    :raises TooManyError: only the root folder contains all of them.
    """
    there = {path: _view_folder(path, own) for _name, path in shown if os.path.exists(path)}
    chosen = _outermost_folders(set(there.values()))
    while len(chosen) > _MAX_VIEWS:
        depth = max(map(_depth, chosen))
        chosen = _outermost_folders({os.path.dirname(one) if _depth(one) == depth else one for one in chosen})
    if os.sep in chosen:
        raise TooManyTargetsError("links in it lead into too many folders")
    return {path: _nearest_ancestor(home, chosen) for path, home in there.items()}


def _view_folder(path: str, own: str) -> str:
    if own and _is_in(path, own):
        return own
    return path if os.path.isdir(path) else os.path.dirname(path)


def _outermost_folders(folders: Set[str]) -> Set[str]:
    return {
        one for one in folders if os.path.dirname(one) == one or not _nearest_ancestor(os.path.dirname(one), folders)
    }


def _nearest_ancestor(path: str, folders: Set[str]) -> str:
    """Name the nearest of some folders that is a path, or has it in it; "" where none does."""
    while path not in folders:
        outer = os.path.dirname(path)
        if outer == path:
            return ""
        path = outer
    return path


def _depth(path: str) -> int:
    return path.count(os.sep)

"""Input channels: put in the job's folder before it starts, as copies or as links."""

from __future__ import annotations

import glob
import math
import os
import shutil
from typing import Any, Container, Dict, List, Tuple

from jupyter_smx.agent import digest
from jupyter_smx.agent.failure import RefusalError

Pairs = List[Tuple[str, str]]
"""Name inside the channel, and the file it comes from."""


ALL = {"turn": 0, "count": 1}
"""Share of a host that gets the whole channel."""


class ChannelError(RefusalError):
    """A source that is not there."""


def entries(channel: Dict[str, Any]) -> Pairs:
    """Give what a channel consists of: what its source names now.

    :raises ChannelError: the source names nothing on this host.
    """
    source = channel["source"]
    if os.path.isdir(source):
        return [(name, os.path.join(source, name)) for name in sorted(os.listdir(source))]
    if os.path.isfile(source):
        return [(os.path.basename(source), source)]
    found = _found(source)
    if not found:
        raise ChannelError(f"channel {channel['name']}: {source!r} is no file, folder or pattern on this host.")
    return found


def _found(pattern: str) -> Pairs:
    """Find what a pattern stands for, named from its fixed part on, so that files of equal names do not meet.

    What lies in a folder that was found, too, comes with it.

    :raises ChannelError: something lies outside of that part, so it would have no place in the channel.
    """
    folder = os.path.dirname(os.path.normpath(pattern))
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    names = {os.path.relpath(path, folder): path for path in glob.glob(pattern, recursive=True)}
    names.pop(os.curdir, None)  # ** finds the folder itself
    for name, path in names.items():
        if name.split(os.sep)[0] == os.pardir:
            raise ChannelError(f"{pattern!r} finds {path!r}, which lies outside of {folder!r}, where it begins.")
    return sorted((name, path) for name, path in names.items() if not _is_within(name, names))


def _is_within(name: str, names: Container[str]) -> bool:
    outer = os.path.dirname(name)
    while outer and outer not in names:
        outer = os.path.dirname(outer)
    return bool(outer)


def part(pairs: Pairs, share: Dict[str, int]) -> Pairs:
    """Give this host's share: every ``count``-th of all files of a channel, from ``turn`` on, in the order of names."""
    if share["count"] == 1:
        return pairs
    everything: Pairs = []
    for name, source in pairs:
        if os.path.isdir(source):
            everything += [(os.path.join(name, one.name), one.path) for one in digest.files(source, math.inf)]
        else:
            everything.append((name, source))
    return sorted(everything)[share["turn"] :: share["count"]]


def _copy(source: str, target: str) -> None:
    """Copy a file, or a folder with what its links lead to.

    :raises OSError: the first that went wrong; ``shutil.copytree`` goes on and tells them all, without their numbers.
    """
    if not os.path.isdir(source):
        shutil.copy2(source, target)
        return
    os.mkdir(target)
    for name in os.listdir(source):
        _copy(os.path.join(source, name), os.path.join(target, name))
    shutil.copystat(source, target)


def _present(channel: Dict[str, Any], pairs: Pairs, folder: str, *, link: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, source in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(source):
            raise ChannelError(f"channel {channel['name']}: {source!r} is not there any more.")
        if link:
            os.symlink(os.path.abspath(source), target)
        else:
            _copy(source, target)


def stage(
    channels: List[Dict[str, Any]],
    folders: Dict[str, str],
    hidden: Tuple[Tuple[str, str], ...],
    limit: int,
    known: digest.Known,
) -> Dict[str, Any]:
    """Present every channel in its folder; File copies, FastFile links. Gives a digest of each (``inputs``).

    ``hidden`` names folders of the machine that jobs of this host cannot see, and where this process still finds them;
    what lies there is copied in either mode. ``limit`` is the number of bytes of a channel above which its content is
    not read for its digest, ``known`` what is known of files from jobs before; ``fresh`` is what was learnt.

    :raises ChannelError: a source is not there.
    :raises OSError: it cannot be read, or the host's disk is full.
    """
    inputs, fresh = [], {}  # type: List[Dict[str, Any]], digest.Known
    for channel in channels:
        link = channel.get("mode") == "FastFile"
        whole, moved = _reachable(channel, hidden)
        link = link and not moved
        folder, pairs = folders[channel["name"]], part(entries(whole), channel.get("share") or ALL)
        # Looked at before they are copied: what changes meanwhile is another file than the one that is remembered.
        sources = {} if link else _sources(pairs)
        _present(whole, pairs, folder, link=link)
        bound = limit // digest.LINKED_SHARE if link else limit
        described, read = digest.of_channel(channel["name"], folder, sources, bound, known)
        inputs.append(described)
        fresh.update(read)
    return {"inputs": inputs, "fresh": fresh}


def _sources(pairs: Pairs) -> Dict[str, digest.File]:
    """Find the files that those of a copied channel are to come from, by their names in it."""
    found: Dict[str, digest.File] = {}
    for name, source in pairs:
        try:
            if not os.path.isdir(source):
                found[name] = digest.look(name, source)
                continue
            inner = list(digest.files(source))
        except (OSError, digest.TooManyError):
            continue  # then there is nothing that could be known of it; the copy will tell what is wrong
        found.update((os.path.join(name, file.name), file) for file in inner)
    return found


def _reachable(channel: Dict[str, Any], hidden: Tuple[Tuple[str, str], ...]) -> Tuple[Dict[str, Any], bool]:
    moved = False

    def reach(path: str) -> str:
        nonlocal moved
        for prefix, real in hidden:
            if path == prefix or path.startswith(prefix + os.sep):
                moved = True
                return real + path[len(prefix) :]
        return path

    return dict(channel, source=reach(channel.get("source") or "")), moved

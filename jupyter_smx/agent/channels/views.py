"""FastFile of files of this machine: views that nobody can write to, or links where this host can mount none."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.channels import links
from jupyter_smx.agent.channels.sources import ALL, entries, part

if TYPE_CHECKING:
    from jupyter_smx.agent.channels.sources import Pairs
    from jupyter_smx.agent.channels.staged import Staged, World

_VIEWS = 32
"""Folders that one channel is shown from at most: each is a mount, and no start may wait for hundreds."""
_LISTED = 20_000
"""Files of a channel that are looked at one by one at most, for the same reason."""


def show(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    """Show a whole folder in the channel's place; a share of it, a file or what a pattern finds is links to a view."""
    source, share = channel["source"], channel.get("share") or ALL
    os.makedirs(folder, exist_ok=True)
    staged.lazy.append(channel["name"])
    if os.path.isdir(source) and share["count"] == 1:
        staged.mounts.append({"how": "show", "source": source, "target": folder})
        return
    pairs = [(name, os.path.abspath(path)) for name, path in part(entries(channel), share)]
    top = os.path.commonpath([os.path.dirname(path) for _name, path in pairs]) if pairs else folder
    view = make(world, channel["name"])
    fill(staged, [(name, os.path.join(view, path[len(top) :].lstrip(os.sep))) for name, path in pairs], folder)
    if pairs:
        staged.mounts.append({"how": "show", "source": top, "target": view})


def show_beyond(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    """Show a folder whose links lead out of it: each of its files by a link to a view of where it really is.

    A snapshot of a model hub is such a folder, whose files are links to one beside it.
    """
    pairs = _there(part(entries(channel), channel.get("share") or ALL))
    found = links.each_file(pairs, _LISTED)
    files = [(name, links.real(path)) for name, path in found.files] if found else []
    own = links.real(channel["source"])
    homes = {path: links.home(path, own) for _name, path in files if os.path.exists(path)}
    beyond = sorted(set(homes.values()))
    if found is None or len(beyond) > _VIEWS:
        _link(staged, channel, pairs, folder, "links in it lead out of it, into too many folders")
        return
    staged.lazy.append(channel["name"])
    views = {home: make(world, channel["name"], str(number)) for number, home in enumerate(beyond)}
    for name in found.folders:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    fill(staged, [(name, _in_view(path, homes, views)) for name, path in files], folder)
    staged.mounts += [{"how": "show", "source": home, "target": view} for home, view in views.items()]


def _in_view(path: str, homes: Dict[str, str], views: Dict[str, str]) -> str:
    """Give what a job calls a file; a link that leads nowhere stays one."""
    home = homes.get(path)
    return path if home is None else os.path.normpath(os.path.join(views[home], os.path.relpath(path, home)))


def link(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    """Fill a channel with links to its files themselves, which nothing protects but a host that is sealed."""
    pairs = _there(part(entries(channel), channel.get("share") or ALL))
    if world.sealed and all(path.startswith(world.sealed + os.sep) for _name, path in pairs):
        staged.lazy.append(channel["name"])
        found = links.each_file(pairs)
        for name in found.folders:
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        _put(found.files, folder)
        return
    _link(staged, channel, pairs, folder, world.reason)


def _link(staged: Staged, channel: Dict[str, Any], pairs: Pairs, folder: str, why: str) -> None:
    staged.lazy.append(channel["name"])
    _put([(name, os.path.abspath(path)) for name, path in pairs], folder)
    staged.notes.append(
        f"channel {channel['name']}: FastFile is made of links here, so nothing keeps the job from writing to "
        f"{channel['source']} ({why})."
    )


def _there(pairs: Pairs) -> Pairs:
    for _name, path in pairs:
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return pairs


def _put(pairs: Pairs, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, path in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(path, target)


def make(world: World, *names: str) -> str:
    """Make the place of a view, and give the name by which jobs see it.

    They see its folder where nobody can write to it; what is mounted there is put into the place that they see.
    """
    os.makedirs(os.path.join(world.store, "shown", *names), exist_ok=True)
    return os.path.join(world.shown, *names)


def fill(staged: Staged, pairs: Pairs, folder: str) -> None:
    """Fill a channel with links, each by its name, to what is or will be in a view; nobody writes to it."""
    _put(pairs, folder)
    staged.mounts.append({"how": "show", "source": folder, "target": folder})

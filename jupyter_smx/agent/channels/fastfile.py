"""FastFile for files of this machine: read-only views, or links where this host cannot mount."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Dict

from jupyter_smx.agent.channels import link_targets, symlinks
from jupyter_smx.agent.channels.channel_types import WHOLE_CHANNEL

if TYPE_CHECKING:
    from jupyter_smx.agent.channels.channel_types import ChannelCapabilities, Pairs, StageResult
    from jupyter_smx.agent.frames import ChannelSpec


def present_views(staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities) -> None:
    """Show a whole folder in the channel's place; a share of it, a file or what a pattern finds is links to views.

    So are the files of a folder whose links lead out of it, each to where it really is. A snapshot of a model hub is
    such a folder: its files are links to one beside it.
    """
    source, share = channel["source"], channel.get("share") or WHOLE_CHANNEL
    os.makedirs(folder, exist_ok=True)
    own, ways = symlinks.accessible_path(source) if os.path.isdir(source) else "", staged.link_scan
    if own and share["count"] == 1 and not (ways.has_outbound_links(own) or ways.has_broken_links(own)):
        staged.lazy.append(channel["name"])
        staged.mounts.append({"how": "show", "source": source, "target": folder})
    else:
        pairs = staged.files_of(channel)
        if own:
            _check(pairs)
        try:
            found = link_targets.resolve_links(pairs, own, ways, staged.broken_links.is_dropped)
            _link_to_views(staged, channel["name"], found, own, folder, capabilities)
        except link_targets.TooManyTargetsError as error:
            staged.broken_links.reset()  # the links to whole folders show what is in them
            pairs = staged.files_of(channel)
            _link(staged, channel, pairs, folder, str(error))
            return
    if not ways.is_sure:
        staged.notes.append(
            f"channel {channel['name']}: {source} has so many files, or is on so slow a disk, that links were "
            "searched only among the first ones. Other links out of the folder may be broken, or let the job write to "
            "their targets."
        )


def _link_to_views(
    staged: StageResult,
    name: str,
    found: link_targets.LinkTargets,
    own: str,
    folder: str,
    capabilities: ChannelCapabilities,
) -> None:
    """Fill a channel with links to views of the folders in which its files really are.

    ``own`` is the folder of the channel, or "" if it is not made of one folder.

    :raises TooManyError: there are too many folders; nothing was done.
    """
    homes = link_targets.view_folders(found.shown, own)
    views = {
        home: make_view(capabilities, name, str(number)) for number, home in enumerate(sorted(set(homes.values())))
    }
    # What is not there cannot be written to either, as it could be at the place where its link leads.
    nowhere = make_view(capabilities, name, "nowhere")
    for inside in found.folders:
        os.makedirs(os.path.join(folder, inside), exist_ok=True)
    shown = [(inside, _in_view(path, homes, views, nowhere)) for inside, path in found.shown]
    fill_with_links(staged, [*shown, *((inside, os.path.join(folder, outer)) for inside, outer in found.loops)], folder)
    staged.mounts += [{"how": "show", "source": home, "target": view} for home, view in views.items()]
    staged.lazy.append(name)


def _in_view(path: str, homes: Dict[str, str], views: Dict[str, str], nowhere: str) -> str:
    home = homes.get(path)
    if home is None:
        return os.path.join(nowhere, os.path.basename(path))
    return os.path.normpath(os.path.join(views[home], os.path.relpath(path, home)))


def present_links(staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities) -> None:
    """Fill a channel with links to its files themselves, which nothing protects but a host that is sealed."""
    pairs = staged.files_of(channel)
    _check(pairs)
    if capabilities.sealed and all(path.startswith(capabilities.sealed + os.sep) for _name, path in pairs):
        staged.lazy.append(channel["name"])
        _put(_list_files(staged, pairs, folder), folder)
        return
    own = symlinks.accessible_path(channel["source"]) if os.path.isdir(channel["source"]) else ""
    if own and staged.link_scan.has_broken_links(own):
        # A link to a folder would show the broken links in it, too.
        pairs = _list_files(staged, pairs, folder)
    _link(staged, channel, pairs, folder, capabilities.reason)


def _list_files(staged: StageResult, pairs: Pairs, folder: str) -> Pairs:
    """Create the folders of a channel, and return its files without broken links."""
    found = symlinks.list_files(pairs, staged.broken_links.is_dropped)
    for name in found.folders:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    return found.files


def _link(staged: StageResult, channel: ChannelSpec, pairs: Pairs, folder: str, why: str) -> None:
    staged.lazy.append(channel["name"])
    _put([(name, os.path.abspath(path)) for name, path in pairs], folder)
    staged.notes.append(
        f"channel {channel['name']}: FastFile uses links on this host, so the job can write to "
        f"{channel['source']} ({why})."
    )


def _check(pairs: Pairs) -> None:
    for _name, path in pairs:
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _put(pairs: Pairs, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, path in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(path, target)


def make_view(capabilities: ChannelCapabilities, *names: str) -> str:
    """Create the place of a view, and return the path by which jobs see it.

    Jobs see its folder read-only; the mount covers the created path.
    """
    os.makedirs(os.path.join(capabilities.store, "shown", *names), exist_ok=True)
    return os.path.join(capabilities.shown, *names)


def fill_with_links(staged: StageResult, pairs: Pairs, folder: str) -> None:
    """Fill a channel with links, each by its name, to targets in a view; the channel is read-only."""
    _put(pairs, folder)
    staged.mounts.append({"how": "show", "source": folder, "target": folder})

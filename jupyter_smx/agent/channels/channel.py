"""Input channels: put in the job's folder before it starts, as layers over what is kept, views, copies or links."""

from __future__ import annotations

import contextlib
import errno
import glob
import math
import os
import shutil
import sys
import time
from typing import Any, Callable, Container, Dict, List, NamedTuple, Set, Tuple

from jupyter_smx.agent import outcome
from jupyter_smx.agent.channels import links
from jupyter_smx.agent.place import seen_at
from jupyter_smx.agent.refusal import RefusalError
from jupyter_smx.agent.stores import digest, fetch, object_mount, objects, store
from jupyter_smx.agent.stores.listing import survey
from jupyter_smx.agent.system import clean

Pairs = List[Tuple[str, str]]
"""Name inside the channel, and the file it comes from."""


ALL = {"turn": 0, "count": 1}
"""Share of a host that gets the whole channel."""


class ChannelError(RefusalError):
    """A source that is not there."""


def entries(channel: Dict[str, Any]) -> Pairs:
    """Give what a channel consists of: what its source names now, or what the controller found that it names.

    :raises ChannelError: the source names nothing on this host.
    """
    source = channel["source"]
    if channel.get("entries") is not None:
        return [(name, path) for name, path in channel["entries"]]
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
        store.copy(source, target)
        return
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(source):
        _copy(os.path.join(source, name), os.path.join(target, name))
    shutil.copystat(source, target)


def _present(pairs: Pairs, folder: str, *, link: bool) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, source in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if link:
            os.symlink(os.path.abspath(source), target)
        else:
            _copy(source, target)


class World(NamedTuple):
    """What this host can do for channels: where it keeps inputs, where it shows sources; '' where nothing is mounted.

    ``layers`` says whether a channel can be a layer over what is kept, ``means`` how objects are brought; ``trash`` has
    what earlier jobs left, which an idle host deletes, and one without room at once. In ``sealed`` nobody can write.
    """

    store: str = ""
    shown: str = ""
    layers: bool = False
    reason: str = ""
    means: fetch.Means = fetch.Means()
    trash: str = ""
    sealed: str = ""


class Staged:
    """What a staging made: the descriptions of channels, what was learnt, what is to be mounted, and what to say."""

    def __init__(self, limit: int, known: digest.Known) -> None:
        self.limit = limit
        self.known = dict(known)
        self.room = digest.KEPT
        self.inputs: List[Dict[str, Any]] = []
        self.fresh: digest.Known = {}
        self.mounts: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.lazy: List[str] = []
        self.keys: Set[str] = set()

    def learn(self, described: Dict[str, Any], fresh: digest.Known) -> None:
        """Take down what a channel is, and remember its files as far as there is room for those of this job."""
        self.inputs.append(described)
        if fresh and described["files"] <= self.room:
            self.fresh.update(fresh)
            self.known.update(fresh)
        if described["method"] == "content":
            self.room -= described["files"]

    def answer(self) -> Dict[str, Any]:
        """Give it as it travels from an errand to the agent."""
        said = {"inputs": self.inputs, "fresh": self.fresh, "lazy": self.lazy}
        return dict(said, mounts=self.mounts, notes=self.notes)


def stage(
    channels: List[Dict[str, Any]],
    folders: Dict[str, str],
    hidden: Tuple[Tuple[str, str], ...],
    limit: int,
    known: digest.Known,
    world: World = World(),  # noqa: B008 - a tuple, which nobody changes
) -> Dict[str, Any]:
    """Present every channel in its folder, or say what is to be mounted there. Gives a digest of each (``inputs``).

    ``hidden`` names folders of the machine that jobs of this host cannot see, and where this process still finds them.
    ``limit`` is the number of bytes of a channel above which its content is not read for its digest, ``known`` what is
    known of files from jobs before; ``fresh`` is what was learnt. FastFile is described by :func:`describe`.

    :raises ChannelError: a source is not there.
    :raises OSError: it cannot be read, or the host's disk is full.
    """
    staged = Staged(limit, known)
    # One that lies in another one's folder comes after it, also when they are mounted.
    for channel in sorted(channels, key=lambda one: folders[one["name"]]):
        whole, moved = _reachable(channel, hidden)
        folder = folders[channel["name"]]
        try:
            _WAYS[_way(whole, world, hidden, moved=moved)](staged, whole, folder, world)
        except FileNotFoundError as error:
            raise ChannelError(f"channel {channel['name']}: {links.lost(str(error.filename), hidden)}") from error
    return staged.answer()


def describe(
    names: List[str], folders: Dict[str, str], limit: int, known: digest.Known, others: int = 0
) -> Dict[str, Any]:
    """Look at what lazy channels hold, beside the job: a start must not wait for it.

    ``others`` are the files of its other channels, which are worth more to remember.
    """
    staged = Staged(limit, known)
    staged.room -= others
    for name in names:
        staged.learn(*digest.of_channel(name, folders[name], {}, limit // digest.LINKED_SHARE, known))
    return staged.answer()


def _present_copy(staged: Staged, channel: Dict[str, Any], folder: str, _world: World) -> None:
    pairs = part(entries(channel), channel.get("share") or ALL)
    # Looked at before they are copied: what changes meanwhile is another file than the one that is remembered.
    sources = _sources(pairs)
    _present(pairs, folder, link=False)
    staged.learn(*digest.of_channel(channel["name"], folder, sources, staged.limit, staged.known))


def _present_layer(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    pairs = part(entries(channel), channel.get("share") or ALL)
    listing = survey(pairs, time.time())
    kept = store.Store(world.store, staged.known, staged.limit, staged.room)
    with kept.held():
        taken = _with_room(staged, kept, world, lambda: kept.take(listing))
        staged.mounts.append(kept.layer(taken.key, folder))
    os.makedirs(folder, exist_ok=True)
    staged.learn(_described(channel["name"], taken), kept.fresh)


def _with_room(staged: Staged, kept: store.Store, world: World, take: Callable[[], store.Taken]) -> store.Taken:
    """Take inputs in, and where there is no room for them do it again without what others brought and left here."""
    try:
        taken = take()
    except OSError as error:
        if not outcome.is_full(error):
            raise
        kept.forget_all_but(staged.keys)
        clean.clear(world.trash)
        taken = take()
    staged.keys.add(taken.key)
    return taken


def _present_mount(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    """Show the objects of a folder, of which each is read when the job reads it; a share of them is links to these."""
    source, name, count = channel["source"], channel["name"], (channel.get("share") or ALL)["count"]
    found, seen = [], {}  # type: List[objects.Object], Dict[str, Any]
    rclone = object_mount.find_rclone(world.means.pythons)
    why = object_mount.why_not(source, rclone) if world.shown else world.reason
    if not why:
        with contextlib.closing(fetch.Courier(world.means, f"channel {name}")) as courier:
            seen = courier.ask(source, "peek")
            why = object_mount.why_not_as_seen(seen)
            found = [] if why or count == 1 else fetch.wanted(courier, dict(channel, source=source.rstrip("/") + "/"))
    if why:
        _bring_instead(staged, channel, folder, world, why)
        return
    os.makedirs(folder, exist_ok=True)
    object_mount.write_helper(os.path.join(world.store, "bin"), sys.executable, world.means.entry)
    target, told = folder, dict(digest.blank(name), reason="It is read from its store while the job runs.")
    if count > 1:
        target = _link(staged, name, [(one.name, one.name) for one in found], folder, world)
        told = _described(name, store.Taken("", [(one.name, one.size, one.mark) for one in found], "listing"))
    if count == 1 or found:
        wish = object_mount.wish(rclone, source, target, world.means.environment or {}, seen["access"])
        staged.mounts.append(dict(wish, channel=name, helper=os.path.join(os.path.dirname(world.shown), "bin")))
    staged.inputs.append(told)


def _present_manifest(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    """Bring what FastFile does not mount, on SageMaker neither."""
    _bring_instead(staged, channel, folder, world, "a manifest is no whole folder")


def _bring_instead(staged: Staged, channel: Dict[str, Any], folder: str, world: World, why: str) -> None:
    _present_objects(staged, channel, folder, world)
    staged.notes.append(
        f"channel {channel['name']}: FastFile cannot mount {channel['source']} here ({why}), so it was brought as a "
        "whole, as in File mode."
    )


def _present_objects(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    os.makedirs(folder, exist_ok=True)
    kept = store.Store(world.store, staged.known, staged.limit, staged.room)
    with contextlib.closing(fetch.Courier(world.means, f"channel {channel['name']}")) as courier, kept.held():
        found = fetch.wanted(courier, channel)
        taken = _with_room(staged, kept, world, lambda: fetch.take(courier, kept, channel, found))
        if world.layers:
            staged.mounts.append(kept.layer(taken.key, folder))
        else:
            tree = kept.path("trees", taken.key, "data")
            for name in os.listdir(tree):
                _copy(os.path.join(tree, name), os.path.join(folder, name))
    staged.learn(_described(channel["name"], taken), kept.fresh)


def _described(name: str, taken: store.Taken) -> Dict[str, Any]:
    rows = taken.rows
    if len(rows) > digest.LISTED:
        return dict(digest.blank(name), reason=f"It has more than {digest.LISTED} files.")
    size = sum(size for _name, size, _mark in rows)
    return dict(digest.blank(name), files=len(rows), bytes=size, method=taken.method, sha256=digest.whole(rows))


def _present_links(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    pairs = part(entries(channel), channel.get("share") or ALL)
    staged.lazy.append(channel["name"])
    if world.sealed and all(path.startswith(world.sealed + os.sep) for _name, path in pairs):
        _present(links.each_file(pairs, folder), folder, link=True)
        return
    _present(pairs, folder, link=True)
    why = world.reason or "links in it lead out of it"
    staged.notes.append(
        f"channel {channel['name']}: FastFile is made of links here, so nothing keeps the job from writing to "
        f"{channel['source']} ({why})."
    )


def _present_view(staged: Staged, channel: Dict[str, Any], folder: str, world: World) -> None:
    source, share = channel["source"], channel.get("share") or ALL
    os.makedirs(folder, exist_ok=True)
    staged.lazy.append(channel["name"])
    if os.path.isdir(source) and share["count"] == 1:
        staged.mounts.append({"how": "show", "source": source, "target": folder})
    else:
        _link_into_view(staged, channel, part(entries(channel), share), folder, world)


def _link_into_view(staged: Staged, channel: Dict[str, Any], pairs: Pairs, folder: str, world: World) -> None:
    """Fill a channel with links that lead into a view of its source, which nobody can write to."""
    sources = [(name, os.path.abspath(path)) for name, path in pairs]
    top = os.path.commonpath([os.path.dirname(path) for _name, path in sources]) if pairs else folder
    inside = [(name, path[len(top) :].lstrip(os.sep)) for name, path in sources]
    view = _link(staged, channel["name"], inside, folder, world)
    if pairs:
        staged.mounts.append({"how": "show", "source": top, "target": view})


def _link(staged: Staged, channel: str, pairs: Pairs, folder: str, world: World) -> str:
    """Fill a channel with links, each by its name, to what will be in a view; nobody writes to it. Gives the view."""
    view = os.path.join(world.shown, channel)
    # Jobs see this folder where nobody can write to it; what is mounted there is put into the place that they see.
    os.makedirs(os.path.join(world.store, "shown", channel), exist_ok=True)
    for name, path in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.path.join(view, path), target)
    staged.mounts.append({"how": "show", "source": folder, "target": folder})
    return view


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
    source = channel.get("source") or ""
    found = seen_at(source, hidden)
    return dict(channel, source=found), found != source


def _way(channel: Dict[str, Any], world: World, hidden: Tuple[Tuple[str, str], ...], *, moved: bool) -> str:
    """Choose how a channel is presented; what jobs cannot see (``moved``) cannot be linked to."""
    listed = channel.get("data_type") == "ManifestFile"
    if listed or objects.is_url(channel["source"]):
        if channel.get("mode") == "FastFile":
            return "manifest" if listed else "mount"
        return "objects"
    if channel.get("mode") == "FastFile":
        if world.shown and not links.lead_out(channel["source"], hidden):
            return "view"
        if not moved:
            return "links"
    return "layer" if world.layers else "copy"


_WAYS: Dict[str, Callable[[Staged, Dict[str, Any], str, World], None]] = {
    "view": _present_view,
    "links": _present_links,
    "layer": _present_layer,
    "objects": _present_objects,
    "mount": _present_mount,
    "manifest": _present_manifest,
    "copy": _present_copy,
}

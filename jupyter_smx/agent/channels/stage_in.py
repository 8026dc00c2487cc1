"""Stage input channels in the job's folder before it starts: as overlays, views, copies or links."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, cast

from jupyter_smx.agent import errors
from jupyter_smx.agent.channels import fastfile, symlinks
from jupyter_smx.agent.channels.broken_links import BrokenLinks
from jupyter_smx.agent.channels.channel_types import (
    WHOLE_CHANNEL,
    ChannelCapabilities,
    ChannelError,
    Pairs,
    StageResult,
)
from jupyter_smx.agent.paths import visible_path
from jupyter_smx.agent.stores import digest, fuse_mount, input_cache, objects, worker_client
from jupyter_smx.agent.stores.listing import list_sources
from jupyter_smx.agent.system.files.walk import descend
from jupyter_smx.agent.system.isolation import host_cleanup

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import ChannelSpec


def _copy(source: str, target: str, drop_link: Optional[Callable[[str], bool]] = None) -> None:
    """Copy a file, or a folder with what its links lead to, without links that ``drop_link`` leaves out.

    :raises OSError: the first error; ``shutil.copytree`` would go on and collect all, without their ``errno``.
    """
    import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

    if not os.path.isdir(source):
        input_cache.copy_file(source, target)
        return
    made: List[Tuple[str, str]] = []
    for level in descend(source, follow=True, drop_link=drop_link):
        here = os.path.join(target, level.name) if level.name else target
        os.makedirs(here, exist_ok=True)
        made.append((level.path, here))
        for entry in level.files:
            input_cache.copy_file(entry.path, os.path.join(here, entry.name))
    for folder, copied in reversed(made):  # last: files cannot be written to a read-only folder
        shutil.copystat(folder, copied)


def _copy_all(pairs: Pairs, folder: str, drop_link: Callable[[str], bool]) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, source in pairs:
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        _copy(source, target, drop_link)


def stage(
    channels: List[ChannelSpec],
    folders: Dict[str, str],
    hidden: Tuple[Tuple[str, str], ...],
    limit: int,
    known: digest.DigestCache,
    capabilities: ChannelCapabilities = ChannelCapabilities(),  # noqa: B008 - a tuple is immutable
) -> Dict[str, Any]:
    """Present every channel in its folder, or return what to mount there, with a digest of each (``inputs``).

    ``hidden`` names folders of the machine that jobs of this host cannot see, and where this process still finds them.
    ``limit`` is the number of bytes of a channel above which its content is not read for its digest. ``known`` has the
    digests of files from earlier jobs, ``fresh`` the new ones. FastFile is described by :func:`describe_lazy`.

    :raises ChannelError: a source is not there.
    :raises OSError: it cannot be read, or the host's disk is full.
    """
    staged = StageResult(limit, known)
    # A channel inside another channel's folder comes after it, also in the order of mounts.
    for channel in sorted(channels, key=lambda one: folders[one["name"]]):
        whole, moved = _resolve_source(channel, hidden)
        folder, staged.link_scan = folders[channel["name"]], symlinks.LinkScan()
        staged.broken_links = BrokenLinks(hidden)
        try:
            _PRESENTERS[_choose_presenter(whole, capabilities, staged.link_scan, moved=moved)](
                staged, whole, folder, capabilities
            )
        except FileNotFoundError as error:
            raise ChannelError(
                f"channel {channel['name']}: {symlinks.format_missing_file(str(error.filename), hidden)}"
            ) from error
        except OSError as error:
            # The disk of the host may be read-only, too; that error has its own message.
            if error.errno != errno.EROFS or not any(folder.startswith(f"{one}{os.sep}") for one in folders.values()):
                raise
            raise ChannelError(
                f"channel {channel['name']}: {folder} is inside another channel's read-only folder. Set another path."
            ) from error
        staged.notes += filter(None, [staged.broken_links.note(channel["name"], whole["source"])])
    return staged.to_json()


def describe_lazy(
    names: List[str], folders: Dict[str, str], limit: int, known: digest.DigestCache, others: int = 0
) -> Dict[str, Any]:
    """Describe the files of lazy channels while the job runs, so that its start does not wait for it.

    ``others`` is the number of files of the other channels, whose digests take precedence in the cache.
    """
    staged = StageResult(limit, known)
    staged.digest_quota -= others
    for name in names:
        staged.add_channel(*digest.describe_channel(name, folders[name], {}, limit // digest.LINKED_SHARE, known))
    return staged.to_json()


def _present_copy(staged: StageResult, channel: ChannelSpec, folder: str, _capabilities: ChannelCapabilities) -> None:
    pairs = staged.files_of(channel)
    # Read the state before the copy: a file that changes during the copy must not match its digest later.
    sources = _sources(pairs, staged.broken_links.is_dropped)
    _copy_all(pairs, folder, staged.broken_links.is_dropped)
    staged.add_channel(*digest.describe_channel(channel["name"], folder, sources, staged.limit, staged.known))


def _present_layer(staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities) -> None:
    pairs = staged.files_of(channel)
    listing = list_sources(pairs, time.time(), staged.broken_links.is_dropped)
    kept = input_cache.InputCache(capabilities.store, staged.known, staged.limit, staged.digest_quota)
    with kept.lock():
        taken = _with_room(staged, kept, capabilities, lambda: kept.add_files(listing))
        staged.mounts.append(kept.layer(taken.key, folder))
    os.makedirs(folder, exist_ok=True)
    staged.add_channel(_describe_cached(channel["name"], taken), kept.fresh)


def _with_room(
    staged: StageResult,
    kept: input_cache.InputCache,
    capabilities: ChannelCapabilities,
    take: Callable[[], input_cache.CacheEntry],
) -> input_cache.CacheEntry:
    """Take inputs in, and where there is no room for them do it again without what others brought and left here."""
    try:
        taken = take()
    except OSError as error:
        if not errors.is_full(error):
            raise
        kept.evict_all_except(staged.keys)
        host_cleanup.clear_folder(capabilities.trash)
        taken = take()
    staged.keys.add(taken.key)
    return taken


def _present_mount(staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities) -> None:
    """Show the objects of a folder, of which each is read when the job reads it; a share of them is links to these."""
    source, name, count = channel["source"], channel["name"], (channel.get("share") or WHOLE_CHANNEL)["count"]
    found, seen = [], {}  # type: List[objects.Object], Dict[str, Any]
    rclone = fuse_mount.find_rclone(capabilities.means.pythons)
    why = fuse_mount.mount_obstacle(source, rclone) if capabilities.shown else capabilities.reason
    if not why:
        with contextlib.closing(worker_client.FsspecWorker(capabilities.means, f"channel {name}")) as worker:
            seen = worker.request(source, "peek")
            why = fuse_mount.listing_obstacle(seen)
            found = (
                []
                if why or count == 1
                else worker_client.find_objects(worker, _with_source(channel, source.rstrip("/") + "/"))
            )
    if why:
        _download_instead_of_mounting(staged, channel, folder, capabilities, why)
        return
    os.makedirs(folder, exist_ok=True)
    fuse_mount.write_helper(os.path.join(capabilities.store, "bin"), sys.executable, capabilities.means.entry)
    target, told = (
        folder,
        dict(digest.unknown_description(name), reason="It is read from its store while the job runs."),
    )
    if count > 1:
        target = fastfile.make_view(capabilities, name)
        fastfile.fill_with_links(staged, [(one.name, os.path.join(target, one.name)) for one in found], folder)
        told = _describe_cached(
            name, input_cache.CacheEntry("", [(one.name, one.size, one.mark) for one in found], "listing")
        )
    if count == 1 or found:
        request = fuse_mount.mount_request(rclone, source, target, capabilities.means.environment or {}, seen["access"])
        staged.mounts.append(
            dict(request, channel=name, helper=os.path.join(os.path.dirname(capabilities.shown), "bin"))
        )
    staged.inputs.append(told)


def _present_manifest(
    staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities
) -> None:
    """Download the objects of a manifest, because FastFile cannot mount them; SageMaker does not mount them either."""
    _download_instead_of_mounting(staged, channel, folder, capabilities, "a manifest is not a whole folder")


def _download_instead_of_mounting(
    staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities, why: str
) -> None:
    _present_objects(staged, channel, folder, capabilities)
    staged.notes.append(
        f"channel {channel['name']}: FastFile cannot mount {channel['source']} here ({why}), so it was copied, "
        "as in File mode."
    )


def _present_objects(staged: StageResult, channel: ChannelSpec, folder: str, capabilities: ChannelCapabilities) -> None:
    os.makedirs(folder, exist_ok=True)
    kept = input_cache.InputCache(capabilities.store, staged.known, staged.limit, staged.digest_quota)
    closing = contextlib.closing(worker_client.FsspecWorker(capabilities.means, f"channel {channel['name']}"))
    with closing as worker, kept.lock():
        found = worker_client.find_objects(worker, channel)
        taken = _with_room(
            staged, kept, capabilities, lambda: worker_client.download_objects(worker, kept, channel, found)
        )
        if capabilities.layers:
            staged.mounts.append(kept.layer(taken.key, folder))
        else:
            tree = kept.path("trees", taken.key, "data")
            for name in os.listdir(tree):
                _copy(os.path.join(tree, name), os.path.join(folder, name))
    staged.add_channel(_describe_cached(channel["name"], taken), kept.fresh)


def _describe_cached(name: str, taken: input_cache.CacheEntry) -> Dict[str, Any]:
    rows = taken.rows
    if len(rows) > digest.MAX_LISTED:
        return dict(digest.unknown_description(name), reason=f"It has more than {digest.MAX_LISTED} files.")
    size = sum(size for _name, size, _mark in rows)
    return dict(
        digest.unknown_description(name),
        files=len(rows),
        bytes=size,
        method=taken.method,
        sha256=digest.channel_digest(rows),
    )


def _sources(pairs: Pairs, drop_link: Callable[[str], bool]) -> Dict[str, digest.ChannelFile]:
    """Find the files that those of a copied channel are to come from, by their names in it."""
    found: Dict[str, digest.ChannelFile] = {}
    for name, source in pairs:
        try:
            if not os.path.isdir(source):
                found[name] = digest.stat_file(name, source)
                continue
            inner = list(digest.list_files(source, drop_link=drop_link))
        except (OSError, digest.TooManyFilesError):
            continue  # no digest can be reused then, and the copy raises the error
        found.update((os.path.join(name, file.name), file) for file in inner)
    return found


def _resolve_source(channel: ChannelSpec, hidden: Tuple[Tuple[str, str], ...]) -> Tuple[ChannelSpec, bool]:
    source = channel.get("source") or ""
    found = visible_path(source, hidden)
    return _with_source(channel, found), found != source


def _with_source(channel: ChannelSpec, source: str) -> ChannelSpec:
    return cast("ChannelSpec", dict(channel, source=source))


def _choose_presenter(
    channel: ChannelSpec, capabilities: ChannelCapabilities, ways: symlinks.LinkScan, *, moved: bool
) -> str:
    """Choose how a channel is presented; links to a source that jobs cannot see (``moved``) are impossible."""
    listed = channel.get("data_type") == "ManifestFile"
    if listed or objects.is_url(channel["source"]):
        if channel.get("mode") == "FastFile":
            return "manifest" if listed else "mount"
        return "objects"
    if channel.get("mode") == "FastFile":
        # Where jobs cannot look, what a link leads to has no name by which it could be shown.
        leads_out = moved and (
            os.path.islink(channel["source"]) or symlinks.has_outbound_links(channel["source"], ways)
        )
        if capabilities.shown and not leads_out:
            return "view"
        if not moved:
            return "links"
    return "layer" if capabilities.layers else "copy"


_PRESENTERS: Dict[str, Callable[[StageResult, ChannelSpec, str, ChannelCapabilities], None]] = {
    "view": fastfile.present_views,
    "links": fastfile.present_links,
    "layer": _present_layer,
    "objects": _present_objects,
    "mount": _present_mount,
    "manifest": _present_manifest,
    "copy": _present_copy,
}

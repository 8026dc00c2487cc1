"""Types of stage-in: abilities of a host, files of a source, and the result of staging one channel."""

from __future__ import annotations

import glob
import math
import os
from typing import TYPE_CHECKING, Any, Callable, Container, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent.channels import symlinks
from jupyter_smx.agent.channels.broken_links import BrokenLinks
from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.stores import digest, worker_client
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import ChannelSpec, ShareSpec

Pairs = List[Tuple[str, str]]
"""Name inside the channel, and the file it comes from."""

WHOLE_CHANNEL = {"turn": 0, "count": 1}
"""Share of a host that gets the whole channel."""


class ChannelCapabilities(NamedTuple):
    """What this host can do for channels.

    ``store`` is its input cache, and ``shown`` the folder of its views, '' where nothing can be mounted (``reason``).
    ``layers`` says whether a channel can be an overlay of the cache, and ``means`` how objects are downloaded.
    ``trash`` has what earlier jobs left, which is deleted when the host is idle, or at once when its disk is full.
    ``sealed`` is a folder that is closed to writing.
    """

    store: str = ""
    shown: str = ""
    layers: bool = False
    reason: str = ""
    means: worker_client.WorkerOptions = worker_client.WorkerOptions()
    trash: str = ""
    sealed: str = ""


class ChannelError(RefusalError):
    """A source that does not exist."""


def entries(channel: ChannelSpec) -> Pairs:
    """Return the files and folders of a channel: what its source names now, or what the controller found earlier.

    :raises ChannelError: the source names nothing on this host.
    """
    source = channel["source"]
    if channel.get("entries") is not None:
        return [(name, path) for name, path in channel["entries"]]
    if os.path.isdir(source):
        return [(name, os.path.join(source, name)) for name in sorted(os.listdir(source))]
    if os.path.isfile(source):
        return [(os.path.basename(source), source)]
    found = _expand_pattern(source)
    if not found:
        raise ChannelError(f"channel {channel['name']}: {source!r} is not a file, folder or pattern on this host.")
    return found


def _expand_pattern(pattern: str) -> Pairs:
    """Find the paths of a pattern, named below its fixed part, so that files of equal names do not clash.

    A path inside a folder that was found, too, is left out: it comes with the folder.

    :raises ChannelError: a path is outside of the fixed part, so it has no name in the channel.
    """
    folder = os.path.dirname(os.path.normpath(pattern))
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    names = {os.path.relpath(path, folder): path for path in glob.glob(pattern, recursive=True)}
    names.pop(os.curdir, None)  # ** finds the folder itself
    for name, path in names.items():
        if name.split(os.sep)[0] == os.pardir:
            raise ChannelError(f"{pattern!r} matches {path!r}, which is outside {folder!r}.")
    return sorted((name, path) for name, path in names.items() if not _is_within(name, names))


def _is_within(name: str, names: Container[str]) -> bool:
    outer = os.path.dirname(name)
    while outer and outer not in names:
        outer = os.path.dirname(outer)
    return bool(outer)


def select_share(pairs: Pairs, share: ShareSpec, drop_link: Optional[Callable[[str], bool]] = None) -> Pairs:
    """Return this host's share: every ``count``-th of all files of a channel, from ``turn`` on, in the order of names.

    Links that ``drop_link`` leaves out count for no host.
    """
    if share["count"] == 1:
        return pairs
    everything: Pairs = []
    for name, source in pairs:
        if os.path.isdir(source):
            everything += [
                (os.path.join(name, one.name), one.path) for one in digest.list_files(source, math.inf, drop_link)
            ]
        else:
            everything.append((name, source))
    return sorted(everything)[share["turn"] :: share["count"]]


class StageResult:
    """Result of a staging: descriptions of channels, new digests, mounts that the agent makes, and notes."""

    def __init__(self, limit: int, known: digest.DigestCache) -> None:
        self.limit = limit
        self.known = dict(known)
        self.digest_quota = digest.MAX_REMEMBERED
        self.inputs: List[Dict[str, Any]] = []
        self.fresh: digest.DigestCache = {}
        self.mounts: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.lazy: List[str] = []
        self.keys: Set[str] = set()
        self.link_scan = symlinks.LinkScan()
        """Links of the current channel, which are scanned once."""
        self.broken_links = BrokenLinks()
        """Links of the current channel that are left out."""

    def add_channel(self, described: Dict[str, Any], fresh: digest.DigestCache) -> None:
        """Add the description of a channel, and the digests of its files as far as the quota of this job reaches."""
        self.inputs.append(described)
        if fresh and described["files"] <= self.digest_quota:
            self.fresh.update(fresh)
            self.known.update(fresh)
        if described["method"] == "content":
            self.digest_quota -= described["files"]

    def files_of(self, channel: ChannelSpec) -> Pairs:
        """Return the files and folders of this host's share of a channel, without links that lead nowhere.

        :raises ChannelError: the source names nothing on this host.
        :raises BrokenLinkError: the source itself is such a link.
        """
        pairs = self.broken_links.keep(entries(channel), channel["name"], channel["source"])
        return select_share(pairs, channel.get("share") or WHOLE_CHANNEL, self.broken_links.is_dropped)

    def to_json(self) -> Dict[str, Any]:
        """Return the result as the JSON object that a forked task sends to the agent."""
        said = {"inputs": self.inputs, "fresh": self.fresh, "lazy": self.lazy}
        return dict(said, mounts=self.mounts, notes=self.notes)

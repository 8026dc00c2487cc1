"""Read and delete what hosts left on the disk of this machine, and measure its size."""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import time
from typing import Any, Dict, Iterator

from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName
from jupyter_smx.agent.system.files import rmtree

READ_LIMIT = 1 << 20
"""Bytes that one answer has at most."""
ARCHIVE_PREFIX = "agent-"
_BLOCK = 512
"""Bytes that ``st_blocks`` counts."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


def read(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Read a part of a file in a host's spool: ``data`` in base64 and the ``size`` of the file; None if there is none.

    ``request`` has ``cluster``, ``host``, ``path`` below the spool, ``offset`` and ``limit`` in bytes. A job could have
    put anything there, so links are not followed, and only files are read.

    :raises OSError: it cannot be read.
    """
    top = store.folder(HostName(request["cluster"], request["host"])).spool
    try:
        fd = _open_below(top, request["path"])
    except FileNotFoundError:
        return {"data": None, "size": 0}
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        file.seek(int(request["offset"]))
        data = file.read(min(int(request["limit"]), READ_LIMIT))
    return {"data": base64.b64encode(data).decode(), "size": size}


def _open_below(top: str, path: str) -> int:
    """Open a file below a folder, folder by folder.

    :raises OSError: it does not exist, or is no file.
    """
    parts = path.split("/")
    if "" in parts or ".." in parts or "." in parts:
        raise FileNotFoundError(path)
    folder = os.open(top, _OPEN | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        fd = os.open(parts[-1], _OPEN, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise FileNotFoundError(path)


def delete(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Delete the folders of clusters that ended, except those in ``request["keep"]``; return the deleted ones.

    With ``clusters`` in ``request`` no others are deleted. A folder without running hosts is deleted even if it was not
    released: its agent has ended by itself.
    """
    keep = set(request["keep"])
    names = store.cluster_names(request["owner"])
    removals = []
    for cluster in [name for name in names if name in request.get("clusters", names)]:
        if cluster in keep or any(map(store.is_live, store.hosts(cluster))):
            continue
        rmtree.remove_if_possible(os.path.join(store.clusters, cluster))
        removals.append(cluster)
    return {"deleted": removals}


def delete_archives(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Delete archives of other agent versions that no host of this account runs; return the deleted ones."""
    used = {request["archive"]} | {str(store.description(name).get("archive", "")) for name in store.live_hosts()}
    found = [name for name in os.listdir(store.root) if name.startswith(ARCHIVE_PREFIX) and name not in used]
    for name in found:
        os.unlink(os.path.join(store.root, name))
    return {"deleted": found}


def disk_usage(path: str, deadline: float = float("inf")) -> int:
    """Count the bytes that a folder takes on its disk; parts that cannot be read count 0.

    Ends at ``deadline``, by the clock of ``time.monotonic``, with what was counted so far.
    """
    counted = 0
    for size in _sizes(path):
        counted += size
        if time.monotonic() > deadline:
            break
    return counted


def _sizes(path: str) -> Iterator[int]:
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                yield file_size(os.path.join(folder, name))


def file_size(path: str) -> int:
    """Return the bytes that a file takes on its disk.

    :raises OSError: there is none.
    """
    return os.lstat(path).st_blocks * _BLOCK

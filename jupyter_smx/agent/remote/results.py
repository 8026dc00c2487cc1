"""End what a host left on its node, and keep its uncollected results: after an allocation nothing can run there."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName

if TYPE_CHECKING:
    from typing import List

_PART = ".part"
_RELEASE_TIMEOUT = 5.0
"""Seconds until the processes of the host must have exited."""


def finish_host(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Keep the results of a host whose agent has ended, and release its cluster on this node; return the kept jobs.

    ``request`` is as for :func:`keep_results`.

    :raises VerbError: a process still runs although it was killed.
    """
    from jupyter_smx.agent.remote import release  # noqa: PLC0415 - imports what a copy does not need

    # A scheduler that ends a job sends SIGTERM to all its processes, and kills them after a grace that a copy can use.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answer = keep_results(store, request)
    question = {"cluster": request["cluster"], "machine": socket.gethostname(), "timeout": _RELEASE_TIMEOUT}
    return {**answer, **release.release(store, question)}


def keep_results(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Copy the spool of a host to the folder ``home``, which outlives an allocation; return the jobs in it.

    The controller deletes the folder of a job from the spool as soon as it has all of it, so what is there was not
    collected. ``request`` has ``cluster``, ``host`` and ``home``. Nothing is copied if ``home`` is this store.

    :raises OSError: the home cannot be written.
    """
    name = HostName(request["cluster"], request["host"])
    home = ClusterStore(os.path.expanduser(request["home"]))
    source, target = store.folder(name).spool, home.folder(name).spool
    jobs = _jobs(source)
    if os.path.realpath(home.root) == os.path.realpath(store.root):
        return {"jobs": jobs}
    for job in jobs:
        _copy(os.path.join(source, job), os.path.join(target, job))
    if jobs:
        home.describe(name, store.description(name))
    return {"jobs": jobs}


def _jobs(spool: str) -> List[str]:
    try:
        return sorted(entry.name for entry in os.scandir(spool) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _copy(source: str, target: str) -> None:
    """Copy a folder as a whole: a reader finds all of it, or nothing. Links stay links."""
    if os.path.exists(target):
        return
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    shutil.rmtree(target + _PART, ignore_errors=True)
    shutil.copytree(source, target + _PART, symlinks=True, copy_function=shutil.copy)
    os.replace(target + _PART, target)

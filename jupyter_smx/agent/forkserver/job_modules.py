"""Modules that few jobs need, and that take a third of a zygote's start: they are loaded after it.

A job that needs one before that loads it itself. Then it does so before the user's files come first in its imports,
because a file of the user's may have the name of a module of Python that one of these needs.
"""

from __future__ import annotations

import contextlib
import importlib
import select
import sys
from typing import TYPE_CHECKING, List

from jupyter_smx.agent.code import imports

if TYPE_CHECKING:
    import socket

    from jupyter_smx.agent.frames import ChildMessage
    from jupyter_smx.agent.paths import HostInfo

NAMES = (
    "shutil",
    "hashlib",
    "tarfile",
    "jupyter_smx.agent.forkserver.reexec",
    "jupyter_smx.agent.code.requirements.install",
    "jupyter_smx.agent.launchers.torchrun",
    "jupyter_smx.agent.launchers.mpi",
    "jupyter_smx.agent.launchers.parameter_server",
    "jupyter_smx.agent.launchers.spark",
)
START = 0.5
"""Seconds after which a process has time to load them: the start of its host is over by then."""
_loaded: List[str] = []
"""Those that are loaded, in the order of their names; a forked process inherits them."""
_NEED_MODULES = ("source_dir", "entry_point", "command", "requirements", "distribution", "shared", "send", "receive")
"""Fields of a request with which a job has other files than the cell, or needs some of these modules."""


def load_all() -> None:
    """Load those that are not loaded yet.

    :raises ImportError: this Python lacks a module that one of them needs.
    :raises OSError: the archive cannot be read any more.
    """
    for name in NAMES[len(_loaded) :]:
        importlib.import_module(name)
        _loaded.append(name)


def load_while_waiting(sock: socket.socket) -> None:
    """Load those that are not loaded yet, unless a message comes soon."""
    if _is_any_missing() and not select.select([sock], [], [], START)[0]:
        _load_in_child()


def load_for_job(message: ChildMessage, host_info: HostInfo) -> None:
    """Load all for a job that may need some or has files of the user's, in its process and before it can find them."""
    if not _is_any_missing():
        return
    spec = message["spec"]
    needs_some = any(spec.get(name) for name in _NEED_MODULES)
    if needs_some or message.get("home") or host_info.image_files or "PYTHONPATH" in spec["environment"]:
        _load_in_child()


def _is_any_missing() -> bool:
    return len(_loaded) < len(NAMES)


def _load_in_child() -> None:
    """Load all where the package is hidden, and not from the folder of jobs: another job's files may be there.

    A job that needs one that failed reports that, so the child goes on, whatever is raised.
    """
    first = sys.path[:1]
    del sys.path[:1]
    try:
        with contextlib.suppress(Exception), imports.agent_modules():
            load_all()
    finally:
        sys.path[:0] = first

"""Layout of a host's folder, which the agent, its jobs and the engine share."""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, List, Tuple

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.named_tuple import NamedTuple

# Folders of /opt/ml that exist before a job starts; the same ones are used by every job of the host.
SKELETON = (
    "code",
    "input/config",
    "input/data",
    "model",
    "output/data",
    "output/intermediate",
    "checkpoints",
    "config",
    "processing/input",
    "processing/output",
    "sagemaker/warmpoolcache",
)
# What a job may leave in and the next job must not see; the cache of the warm pool is not in it.
JOB_FOLDERS = (
    "code",
    "input/data",
    "model",
    "output/data",
    "output/intermediate",
    "output",
    "checkpoints",
    "processing/input",
    "processing/output",
    "processing",
    "input/config",
    "input",
    "config",
    "sagemaker",
    "",
)


CONFIGS = ("input/config", "config")
"""Folders of ``/opt/ml`` with the job's settings, which may be secret: in memory if possible, never on a disk."""

QUEUES = "/dev/mqueue"
"""Folder in which a machine shows its POSIX message queues; an isolated host shows them in its own folder, too."""

TMP_MODE = 0o1777
"""Permissions of what becomes the ``/tmp`` of jobs, in a private folder."""


class RootEntries(NamedTuple):
    """What the machine's ``/`` had when the host began: all names, and the targets of those that are links."""

    names: FrozenSet[str]
    links: Dict[str, str]


NO_ENTRIES = RootEntries(frozenset(), {})
"""Of a host whose jobs have the machine's own ``/``."""


class HostFolder:
    """Paths inside one host's folder, all absolute; an engine puts into ``provided`` what a container reads."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.claim = self.path(host_layout.CLAIM)
        self.socket = self.path(host_layout.SOCKET)
        self.ml = self.path(host_layout.ML)
        self.tmp = self.path(host_layout.TMP)
        self.rootfs = self.path(host_layout.ROOTFS)
        self.slots = self.path(host_layout.SLOTS)
        self.spool = self.path(host_layout.SPOOL)
        self.trash = self.path(host_layout.TRASH)
        self.trees = self.path(host_layout.TREES)
        self.queues = self.path(host_layout.QUEUES)
        self.inputs = self.path(host_layout.INPUTS)
        self.provided = self.path(host_layout.PROVIDED)
        self.unmovable: Tuple[str, ...] = ()
        """Folders of jobs that lie beside this one; they are emptied, since nothing can be moved out of them."""
        self.mounted_names: Tuple[str, ...] = ()
        """Names in the folder for temporary files that another program has mounted over, so that they stay."""
        self.root_entries = NO_ENTRIES
        """What stays in ``/`` after a job, if the host's jobs have a ``/`` of their own."""

    def path(self, *names: str) -> str:
        """Return the path of something in the folder."""
        return os.path.join(self.root, *names)

    def make(self) -> None:
        """Make what is missing; existing folders are kept, so this can be called between jobs."""
        for path in (self.slots, self.spool, self.trash, self.inputs):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self.make_job_folders()

    def make_job_folders(self) -> None:
        """Make the folder for temporary files and those of ``/opt/ml`` where they are missing."""
        os.makedirs(self.tmp, mode=0o700, exist_ok=True)
        os.chmod(self.tmp, TMP_MODE)
        for name in SKELETON:
            os.makedirs(os.path.join(self.ml, name), exist_ok=True)


def is_folder(path: str) -> bool:
    """Return True if a path is a folder and no link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def skeleton_entries(name: str) -> List[str]:
    """Return the entries of a renewed folder that belong to the skeleton and stay."""
    prefix = name + "/" if name else ""
    inside = [entry[len(prefix) :] for entry in SKELETON if entry.startswith(prefix)]
    return sorted({entry.split("/")[0] for entry in inside if entry})

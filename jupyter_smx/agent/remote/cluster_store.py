"""Folders of clusters on a machine with work of other users: which hosts exist, which run, and which were released.

``ROOT/clusters/CLUSTER/HOST`` is a host's folder. ``CLUSTER/HOST.json`` is the description of that host where none of
its jobs can write, with the owner and the GPUs that it got. ``CLUSTER/released`` says that the id is never used again.
``ROOT/lock`` is held while slots and GPUs are given away.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Dict, Iterator, List, Optional

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process_table

START_LIMIT = 120.0
"""Seconds after its description during which a host without an agent counts as starting."""
_RELEASED = "released"
_JSON = ".json"


class AgentIdentity(NamedTuple):
    """The process of a host's agent; ``start_time`` counts clock ticks since boot, ``socket`` is its unix socket."""

    pid: int
    start_time: int
    boot_id: str
    python: str

    def is_alive(self) -> bool:
        """Return True if exactly this process runs."""
        return self.boot_id == process_table.boot_id() and process_table.is_alive((self.pid, self.start_time))

    def is_stopped(self) -> bool:
        """Return True if a signal, or a debugger, has stopped this process."""
        return self.boot_id == process_table.boot_id() and process_table.is_stopped((self.pid, self.start_time))


class HostName(NamedTuple):
    """One host of one cluster."""

    cluster: str
    host: str


class ClusterStore:
    """The folder of an account on a machine. Every method reads or writes a disk.

    :raises OSError: of every method: the disk cannot be read, or written.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.clusters = os.path.join(self.root, "clusters")

    def folder(self, name: HostName) -> HostFolder:
        """Return the folder of a host, which need not exist."""
        return HostFolder(os.path.join(self.clusters, name.cluster, name.host))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the account, which only one process can have."""
        os.makedirs(self.clusters, mode=0o700, exist_ok=True)
        fd = os.open(os.path.join(self.root, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def cluster_names(self, owner: str = "") -> List[str]:
        """List the clusters that have a folder here, only those of an owner if one is given."""
        try:
            found = sorted(entry.name for entry in os.scandir(self.clusters) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        return [name for name in found if not owner or owner in self._owners(name)]

    def _owners(self, cluster: str) -> List[str]:
        return [str(self.description(name).get("owner", "")) for name in self.hosts(cluster)]

    def hosts(self, cluster: str) -> List[HostName]:
        """List the hosts that were described of a cluster, by name."""
        try:
            names = os.listdir(os.path.join(self.clusters, cluster))
        except FileNotFoundError:
            return []
        found = sorted(name[: -len(_JSON)] for name in names if name.endswith(_JSON) and not name.startswith("."))
        return [HostName(cluster, name) for name in found]

    def live_hosts(self) -> List[HostName]:
        """List all hosts of this account that run or are about to, of every owner."""
        every = [
            name for cluster in self.cluster_names() if not self.is_released(cluster) for name in self.hosts(cluster)
        ]
        return [name for name in every if self.is_live(name)]

    def is_live(self, name: HostName) -> bool:
        """Return True if a host runs, or was described so recently that its agent may still start."""
        agent = self.agent(name)
        if agent is not None:
            return agent.is_alive()
        try:
            age = time.time() - os.stat(self._description_path(name)).st_mtime
        except FileNotFoundError:
            return False
        return age < START_LIMIT

    def agent(self, name: HostName) -> Optional[AgentIdentity]:
        """Read which process is the agent of a host; None where it has none yet."""
        path = self.folder(name).path(host_layout.PROCESS)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
                content = json.loads(file.read(65_536))
            return AgentIdentity(
                int(content["pid"]), int(content["start_time"]), str(content["boot_id"]), str(content.get("python", ""))
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def describe(self, name: HostName, description: Dict[str, Any]) -> None:
        """Write ``host.json`` for the agent and its copy, each as a whole."""
        folder = self.folder(name)
        os.makedirs(folder.root, mode=0o700, exist_ok=True)
        text = json.dumps(description)
        write_file(folder.path(host_layout.DESCRIPTION), text)
        write_file(self._description_path(name), text)

    def description(self, name: HostName) -> Dict[str, Any]:
        """Read how a host was described; empty where it was not."""
        try:
            with open(self._description_path(name), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _description_path(self, name: HostName) -> str:
        return os.path.join(self.clusters, name.cluster, name.host + _JSON)

    def is_released(self, cluster: str) -> bool:
        """Return True if a cluster was released."""
        return os.path.exists(os.path.join(self.clusters, cluster, _RELEASED))

    def close(self, cluster: str) -> List[HostName]:
        """Write down that a cluster is released, so that no agent starts for it any more; lists its hosts."""
        folder = os.path.join(self.clusters, cluster)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_file(os.path.join(folder, _RELEASED), "")
        hosts = self.hosts(cluster)
        for name in hosts:
            os.makedirs(self.folder(name).root, mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.folder(name).claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return hosts


def write_file(path: str, text: str) -> None:
    """Write a small file as a whole, or leave the old one.

    :raises OSError: it cannot be written.
    """
    temporary = "{}.{}.part".format(path, os.getpid())
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)

"""A record for each cluster on this machine: the machines of its hosts, written before their launch.

A release then needs only those machines, and the id of a released cluster is refused even if its machine forgot it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.remote.record_folder import RecordFolder
from jupyter_smx.model.records.cluster import HostHandle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path


class Intention(Struct, frozen=True):
    """Planned launch: for each host, in the job's order, its machine, and its number of GPUs."""

    places: dict[str, str]
    gpus: dict[str, int] = {}

    def machines(self) -> list[str]:
        """Name each machine once."""
        return list(dict.fromkeys(self.places.values()))

    def without(self, host: str) -> Intention:
        """Return the plan without a host of which nothing was launched."""
        return replace(self, places={name: place for name, place in self.places.items() if name != host})

    def use_of(self, machine: str) -> tuple[int, int]:
        """Count the hosts on a machine, and the GPUs that they take."""
        hosts = [host for host, place in self.places.items() if place == machine]
        return len(hosts), sum(self.gpus.get(host, 0) for host in hosts)


def place_of(host: HostHandle | None) -> str:
    """Name the machine of a host; "" where it is on none."""
    return "" if host is None else str(host.data.get("machine", ""))


def host_handle(host: str, machine: str, answer: Mapping[str, Any]) -> HostHandle:
    """Describe a host as its machine reported it."""
    fields = ("pid", "start_time", "boot_id", "socket")
    return HostHandle(host=host, machine=machine, data={"machine": machine, **{name: answer[name] for name in fields}})


class ClusterRegister(RecordFolder[Intention]):
    """``<folder>/<cluster>/intention.json`` and ``released``, below ``data_dir``. Methods block for a moment.

    :raises UnavailableError: of every method: the folder cannot be read or written.
    """

    def __init__(self, data_dir: Path, folder: Path) -> None:
        super().__init__(Intention, data_dir, folder)

    def placement_lock(self) -> AbstractAsyncContextManager[bool]:
        """Allow one launch at a time to read and take free resources; send no requests to machines meanwhile."""
        return self._lock(self.folder.parent)

    def leave_out(self, cluster: str, host: str) -> None:
        """Record that nothing of a host was launched, so that a release does not need its machine."""
        intention = self.read(cluster)
        if intention is not None:
            self.write(cluster, intention.without(host))

"""What the contract needs to see of machines of a remote engine: their disks and processes, from this machine."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.data_folder import provide_archive
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.engines.remote.remote_engine import RemoteEngine

CHOSEN_THERE = ("addresses", "interface", "port", "owner", "devices", "limits")
"""Fields of ``host.json`` that machines fill in."""


class RemoteHarness(LocalHarness):
    """A remote engine whose machines' folders of hosts are ``roots``, as this machine sees them."""

    filled_in = frozenset(CHOSEN_THERE)

    def __init__(self, folder: Path, **traits: object) -> None:
        provide_archive(folder)  # a controller before this one may have left it
        self.folder = folder
        self.traits = traits
        self.engine = self.new_engine()  # type: ignore[assignment]  # not a local one

    @abstractmethod
    def new_engine(self) -> RemoteEngine:  # type: ignore[override]  # as above
        """Make another instance that shares only disks."""

    @abstractmethod
    def roots(self) -> list[Path]:
        """Give the folder of hosts of each machine."""

    def cluster_folder(self, cluster: str) -> Path:
        """Give a cluster's folder on the machine that has it, else one that does not exist."""
        places = [root / "clusters" / cluster for root in self.roots()]
        return next((place for place in places if place.exists()), places[0])

    def cluster_folders(self, cluster: str) -> list[Path]:
        """Give a cluster's folder on each machine that has one."""
        return [place for root in self.roots() if (place := root / "clusters" / cluster).exists()]

    def host_folders(self, cluster: str) -> list[Path]:
        """Give the folder of each host, on whatever machine it is."""
        return [path for place in self.cluster_folders(cluster) for path in sorted(place.glob("*")) if path.is_dir()]

    def stored_bytes(self, cluster: str) -> bytes:
        """Add what the engine wrote down here, and the descriptions beside the folders of hosts."""
        record = self.engine.clusters_folder()
        assert record is not None
        places = [*self.cluster_folders(cluster), record / cluster]
        beside = [path.read_bytes() for place in places for path in place.iterdir() if path.is_file()]
        return b"\n".join([super().stored_bytes(cluster), *beside])

    def python(self) -> str:
        """Give the machines' own."""
        return ""

    def launched_hosts(self, cluster: str) -> dict[str, Any]:
        """Read ``host.json`` of each live host, as a plan shows it."""
        hosts: dict[str, Any] = {}
        live = process_scan.agents(cluster)
        for folder in sorted(self.host_folders(cluster), key=lambda path: path.name):
            if folder.name in live:
                described = process_scan.read_json(folder / host_layout.DESCRIPTION)
                hosts[folder.name] = {"python": "python3", "setup": "", host_layout.DESCRIPTION: described}
        return hosts

    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Read what was launched; what machines choose is blank as in the plan."""
        hosts = self.launched_hosts(cluster)
        agent = f"{agent_zipapp.file_name()}, 3 MiB, sent where it is missing"
        machines = [*self.engine.machine_options()]  # type: ignore[attr-defined]
        return {"engine": self.engine.name, "machines": machines, "agent": agent, "hosts": hosts}

    def invalid_request(self) -> ClusterRequest:
        """Ask for an environment that is not configured."""
        return replace(self.request(), python="no-such-environment")

    def purge_cluster(self, cluster: str) -> None:
        """Take the folders and the record away, while processes live."""
        for place in self.cluster_folders(cluster):
            place.rename(place.parents[1] / f"forgotten-{cluster}")
        record = self.engine.clusters_folder()
        assert record is not None
        (record / cluster).rename(self.folder / f"forgotten-{cluster}")

    async def close(self) -> None:
        """Release every cluster that a machine has."""
        engine = self.new_engine()
        for root in self.roots():
            for path in (root / "clusters").glob("*"):
                await engine.release(Handle(engine=engine.name, cluster=path.name))
        for seen in process_scan.processes("JUPYTER_SMX_HOST="):
            if any(os.fspath(root) in seen.command for root in self.roots()):
                process_scan.kill_and_wait(seen.pid)

"""The local engine's harness for the contract: this machine through ``/proc`` and the files of hosts."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.agent.system.files import host_layout, short_path
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.engines.machine.host_folder import RELEASED_MARKER
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.data_folder import provide_archive
from jupyter_smx.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.engines.base import ClusterRequest

_COSTLY = (*host_layout.FOLDERS, host_layout.SOCKET, host_layout.SHORTCUT)


class LocalHarness(Harness):
    """A local engine with a data folder of its own."""

    def __init__(self, folder: Path, **traits: object) -> None:
        provide_archive(folder)  # a controller has made the folder before it asks an engine
        self.folder = folder
        self.traits = {"launch_timeout": 60.0, **traits}
        self.engine = self.new_engine()

    def new_engine(self) -> LocalEngine:
        """Make another instance that shares only the disk."""
        return LocalEngine(data_dir=os.fspath(self.folder), **self.traits)

    def cluster_folder(self, cluster: str) -> Path:
        """Return a cluster's folder."""
        return self.folder / "clusters" / cluster

    def host_folders(self, cluster: str) -> list[Path]:
        """Return the folder of each host of a cluster, past ones included."""
        return [path for path in sorted(self.cluster_folder(cluster).glob("*")) if path.is_dir()]

    def live_hosts(self, cluster: str) -> set[str]:
        """Scan ``/proc`` for agents."""
        return set(process_scan.agents(cluster))

    def launch_counts(self, cluster: str) -> dict[str, int]:
        """Count agents that lead a session now, and hosts whose agent left its birth record and is dead."""
        found: dict[str, int] = {}
        for host, _ in process_scan.find_agents(cluster):
            found[host] = found.get(host, 0) + 1
        for folder in self.host_folders(cluster):
            if (folder / host_layout.PROCESS).exists():
                found.setdefault(folder.name, 1)
        return found

    def command_lines(self, cluster: str) -> list[str]:
        """Show what ``ps`` would."""
        return [seen.command for seen in process_scan.cluster_processes(cluster)]

    def command_lines_with(self, token: str) -> list[str]:
        """Search the whole machine."""
        return [seen.command for seen in process_scan.processes() if token in seen.command]

    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Read ``host.json`` and the agents' command lines."""
        return {
            "engine": "local",
            "hosts": {
                host: {
                    "command": _launch_arguments(process_scan.arguments(pid)),
                    host_layout.DESCRIPTION: process_scan.read_json(
                        self.cluster_folder(cluster) / host / host_layout.DESCRIPTION
                    ),
                }
                for host, pid in sorted(process_scan.agents(cluster).items())
            },
        }

    def leftovers(self, cluster: str) -> list[str]:
        """List living processes, and folders that only a living host needs."""
        left = [f"{seen.pid} {seen.command}" for seen in process_scan.cluster_processes(cluster)]
        left += process_scan.control_groups(cluster)
        paths = [os.fspath(folder / name) for folder in self.host_folders(cluster) for name in _COSTLY]
        return left + [path for path in paths if os.path.lexists(path)]

    def stored_bytes(self, cluster: str) -> bytes:
        """Read all files of the cluster but the jobs' spools and folders."""
        files = [path for host in self.host_folders(cluster) for path in host.iterdir() if path.is_file()]
        return b"\n".join(path.read_bytes() for path in files)

    def agent_memory(self, cluster: str, host: str) -> int:
        """Read the agent's resident memory."""
        pid = process_scan.agents(cluster)[host]
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def kill_agent(self, cluster: str, host: str) -> None:
        """Send SIGKILL and wait."""
        process_scan.kill_and_wait(process_scan.agents(cluster)[host])

    def purge_cluster(self, cluster: str) -> None:
        """Take the folder away in one move, while its processes live and write into it."""
        self.cluster_folder(cluster).rename(self.folder / f"forgotten-{cluster}")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Make the data folder unreadable, as on a failed network disk; it cannot be recreated meanwhile."""
        away = self.folder.with_name("away")
        self.folder.rename(away)
        self.folder.touch()
        try:
            yield
        finally:
            self.folder.unlink()
            away.rename(self.folder)

    def invalid_request(self) -> ClusterRequest:
        """Return a request for an interpreter that does not exist."""
        return msgspec.structs.replace(self.request(), python="/nowhere/python")

    async def close(self) -> None:
        """Release every cluster that is or was here, even forgotten ones, but the one that tests share."""
        engine = self.new_engine()
        prefix = os.fspath(self.folder)
        folders = (self.folder / "clusters").glob("*")
        known = {path.name for path in folders if not (path / RELEASED_MARKER).exists()}
        known |= {seen.host().partition("/")[0] for seen in process_scan.processes() if prefix in seen.command}
        spared = {"", self.shared_handle.cluster if self.shared_handle else ""}
        await asyncio.gather(*(engine.release(Handle(engine="local", cluster=cluster)) for cluster in known - spared))
        for host in filter(Path.is_dir, self.folder.glob("forgotten-*/*")):
            short_path.remove_link(os.fspath(host))  # without its cluster no other code finds it


def _launch_arguments(words: list[str]) -> list[str]:
    """Cut pipe numbers, and the arguments with which the agent restarts itself in its namespaces."""
    return words[: words.index("serve") + 2]

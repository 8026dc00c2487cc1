"""What the contract needs to see of the nodes of the test world: their disks and processes, from this machine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from remote_harness import RemoteHarness
from worlds.ssh import disk

from jupyter_smx.engines.slurm import parsers
from jupyter_smx.engines.slurm.engine import SlurmEngine
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worlds.slurm.slurm_world import SlurmWorld

    from jupyter_smx.engines.base import ClusterRequest

NODE_FOLDER = f"/tmp/jupyter_smx-{disk.UID}"  # noqa: S108 - on the nodes
_LONG_END = 120.0
"""Seconds that the end of a job takes at most: Slurm repeats a message to a node, and waits for output, after 60."""


class SlurmHarness(RemoteHarness):
    """The engine ``slurm`` on the cluster of a test world; its programs run in a shell of the login machine."""

    gone_within = 15.0
    filled_in = RemoteHarness.filled_in | {"notice_grace"}

    def __init__(self, folder: Path, world: SlurmWorld, **traits: object) -> None:
        self.world = world
        usual = {
            "variables": {"PATH": f"{world.programs}:{os.environ['PATH']}"},
            "python": disk.PYTHON,
            "grace": 0.5,
            "observe_interval": 1.0,
            "command_timeout": 4.0,
        }
        super().__init__(folder, **(usual | traits))

    def new_engine(self) -> SlurmEngine:  # type: ignore[override]  # no engine of machines that are configured
        """Make another instance that shares only disks."""
        return SlurmEngine(data_dir=os.fspath(self.folder), **self.traits)

    def request(self, hosts: int = 1, *, cluster: str = "", preload: tuple[str, ...] = ()) -> ClusterRequest:
        """Ask for ten minutes, as a controller says how long it needs the hosts."""
        return replace(super().request(hosts, cluster=cluster, preload=preload), max_run=600, keep_alive=60)

    def roots(self) -> list[Path]:
        """Give the folder of hosts on each node."""
        return [machine.root / NODE_FOLDER.lstrip("/") for machine in self.world.nodes]

    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Read what Slurm shows of the job, and ``host.json``."""
        hosts = {name: {**host, "python": disk.PYTHON} for name, host in self.launched_hosts(cluster).items()}
        name = next(name for name in self.world.jobs() if name.endswith(cluster))
        (job,) = self.world.run(f"squeue --noheader --name={name} --format=%i").split()
        shown = parsers.parse_record(self.world.run(f"scontrol --oneliner show job {job}"))
        words = [f"--nodes={shown['NumNodes']}", f"--ntasks={shown['NumTasks']}"]
        words += [f"--ntasks-per-node={shown['NtasksPerN:B:S:C'].partition(':')[0]}"]
        words += [f"--cpus-per-task={shown['CPUs/Task']}"]
        seconds = parsers.parse_duration(shown["TimeLimit"])
        return {"engine": "slurm", "login": "this machine", "submit": [words], "seconds": seconds, "hosts": hosts}

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Stop the scheduler: it accepts connections and does not answer."""
        self.world.freeze_daemon(self.world.login, "slurmctld")
        try:
            yield
        finally:
            self.world.thaw_daemon(self.world.login, "slurmctld")

    def purge_cluster(self, cluster: str) -> None:
        """Let Slurm end the job, and take the record away."""
        name = next(name for name in self.world.jobs() if name.endswith(cluster))
        self.world.run(f"scancel --name={name}")
        record = self.engine.clusters_folder()
        assert record is not None
        (record / cluster).rename(self.folder / f"forgotten-{cluster}")

    async def close(self) -> None:
        """Release every cluster that is on record but the one that tests share, and check that nothing is left."""
        engine = self.new_engine()
        shared = self.shared_handle.cluster if self.shared_handle else ""
        for cluster in {*engine._records.live()} - {shared}:
            released = partial(self._is_released, engine, Handle(engine=engine.name, cluster=cluster))
            await eventually(released, "it is released", within=_LONG_END)
        for place in self.folder.glob("forgotten-*"):
            for seen in process_scan.cluster_processes(place.name.removeprefix("forgotten-")):
                process_scan.kill_and_wait(seen.pid)
            place.rename(self.folder / f"ended-{place.name}")
        await eventually(lambda: not self._other_jobs(shared), "no job is left", within=_LONG_END)

    async def _is_released(self, engine: SlurmEngine, handle: Handle) -> bool:
        """Release a cluster, which a controller repeats while Slurm still ends its job; return True if it has."""
        try:
            await engine.release(handle)
        except UnavailableError:
            return False
        return True

    def _other_jobs(self, shared: str) -> list[str]:
        return [name for name in self.world.jobs() if not (shared and name.endswith(shared))]

"""A controller of a test's own with hosts on the nodes of a cluster; a job's gate lies in the home on each node.

``tests/faults/world.py`` has what is not of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from world import leads
from worlds.machines_controller import PATIENCE, RAN, Gate, MachinesControllerWorld
from worlds.ssh import disk

from jupyter_smx.engines.slurm import submission
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from world import Ran
    from worlds.slurm.slurm_world import SlurmWorld


class SlurmControllerWorld(MachinesControllerWorld):
    """A controller here, and hosts on the nodes of a cluster, where its jobs are those of ``user``."""

    def __init__(self, folder: Path, cluster: SlurmWorld, user: disk.User = disk.FAR_USER) -> None:
        super().__init__(folder, cluster.nodes, user)
        self.slurm = cluster

    def submit(self, body: str = "", *, gate: Gate | None = None, **fields: Any) -> Ran:  # type: ignore[override]
        """Hand a job in for one node, for ten minutes."""
        wish = {"engine": "slurm", "python": "", "keep_alive": 0, "max_run": 600}
        return super().submit(body, gate=gate, **(wish | fields))  # type: ignore[arg-type]

    def agents(self) -> list[int]:
        """Find the agents of the user on the nodes of this cluster; another test process has a cluster of its own."""
        living = [each for machine in self.slurm.nodes if machine.is_on for each in machine.processes(every=True)]
        own = [each for each in living if each.uid == self.user.uid]
        return [each.pid for each in own if " serve /tmp/jupyter_smx-" in each.command and leads(each.pid)]

    def job_id(self) -> str:
        """Give the id of the one job that Slurm has of this user."""
        (job,) = set(self.slurm.run(f"squeue --noheader --user={self.user.name} --format=%A").split())
        return job

    def submissions(self) -> list[str]:
        """Name each job that Slurm got from this controller, once for each time."""
        path = self.data / "engines" / "slurm" / "id"
        if not path.exists():
            return []
        owner = path.read_text()
        names = self.slurm.run("squeue --noheader --states=all --format=%j").split()
        return [name for name in names if submission.cluster_of(owner, name)]

    def close(self) -> None:
        """End everything, and check that Slurm has no job of the user."""
        try:
            super().close()
            eventually_blocking(lambda: not self.slurm.jobs(user=self.user.name), "no job is left", within=PATIENCE)
        finally:
            self.end_masters()
            self.slurm.cancel_all(self.user.name)
            for machine in self.slurm.nodes:
                if machine.is_on:
                    (machine.home_of(self.user) / RAN).unlink(missing_ok=True)

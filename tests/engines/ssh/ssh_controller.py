"""A controller of a test's own with hosts on the machines of the test world, and jobs that say there that they ran.

``tests/faults/world.py`` has what is not of machines. A job's gate, and the file in which it says that it ran, lie in
the account's home on each machine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from worlds.machines_controller import PATIENCE, Gate, MachinesControllerWorld

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.testing.data_folder import provide_archive
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from world import Ran
    from worlds.ssh.machine import Machine
    from worlds.ssh.ssh_world import SshWorld

    from jupyter_smx.model.records.job import Job


class SshControllerWorld(MachinesControllerWorld):
    """A controller here, and hosts on the machines of a test world."""

    def __init__(self, folder: Path, machines: SshWorld) -> None:
        super().__init__(folder, machines.machines)
        self.world = machines

    def submit(self, body: str = "", *, gate: Gate | None = None, **fields: Any) -> Ran:  # type: ignore[override]
        """Hand a job in for machine one, unless ``engine`` says another one."""
        wish = {"engine": "ssh:smx-one", "python": "", "keep_alive": 0}
        return super().submit(body, gate=gate, **(wish | fields))  # type: ignore[arg-type]

    def agents(self) -> list[int]:
        """Find the agents on machines that are on."""
        return [pid for machine in self.machines for pid in self.agents_of(machine)]

    def agents_of(self, machine: Machine) -> list[int]:
        """Find the agents on one machine: what leads a session and serves."""
        return [each.pid for each in living(machine) if " serve " in each.command and _leads(each.pid)]

    def clusters_of(self, machine: Machine) -> list[Path]:
        """Give the folders of all clusters that a machine ever had."""
        return sorted((machine.home / DEFAULT_FOLDER.removeprefix("~/") / "clusters").glob("*"))

    def host_folder(self, job: Job) -> Path:
        """Give the folder of algo-1 of a job's cluster, on whatever machine it is."""
        (found,) = [
            place for machine in self.machines for place in self.clusters_of(machine) if place.name == job.cluster
        ]
        return found / "algo-1"

    def until_nothing_is_left(self) -> None:
        """Wait until no process of the account runs on a machine, and no cluster is open on record."""
        for machine in self.machines:
            eventually_blocking(
                lambda machine=machine: not living(machine), f"nothing runs on {machine.name}", within=PATIENCE
            )
        records = self.data / "engines" / "ssh" / "clusters"
        eventually_blocking(
            lambda: all((path.parent / "released").exists() for path in records.glob("*/intention.json")),
            "all records are closed",
        )

    def close(self) -> None:
        """End everything, check that nothing of it is left, and make the machines' disks empty."""
        try:
            super().close()
            self.until_nothing_is_left()
        finally:
            self.end_masters()
            for machine in self.machines:
                machine.wipe()


def provide_agent(machine: Machine) -> None:
    """Put the agent's archive where the first host of the account would put it.

    To compile, compress and send it takes a controller longer than its own start.
    """
    home = machine.home
    folder = home / DEFAULT_FOLDER.removeprefix("~/")
    provide_archive(folder)
    for path in (*folder.iterdir(), folder, *(each for each in folder.parents if home in each.parents)):
        os.chown(path, machine.uid, machine.uid)


def living(machine: Machine) -> list[Any]:
    """List the account's processes on a machine; none of one that is off."""
    return list(machine.processes()) if machine.is_on else []


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False

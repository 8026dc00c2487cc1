"""A controller of a test's own with hosts on the machines of the test world, and jobs that say there that they ran.

``tests/faults/world.py`` has what is not of machines. A job's gate, and the file in which it says that it ran, lie in
the account's home on each machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import textwrap
from typing import TYPE_CHECKING, Any

from world import Ran, World
from worlds.ssh import disk

from jupyter_smx.engines.remote.account import DEFAULT_FOLDER
from jupyter_smx.engines.ssh.engine import control_folder
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from worlds.ssh.machine import Machine
    from worlds.ssh.ssh_world import SshWorld

    from jupyter_smx.model.records.job import Job

PATIENCE = 60.0
_RAN = "ran"
_PROGRAM = """\
import os, time
_home = {home!r}
_file = os.open(_home + "/{ran}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(_file, b"{word}\\n")
os.close(_file)
print("begun", flush=True)
"""
_WAIT = """\
while not os.path.exists(_home + "/{gate}"):
    time.sleep(0.01)
"""


class Gate:
    """A file for which jobs wait on whatever machine they are; it is opened on all."""

    def __init__(self, machines: list[Machine], name: str) -> None:
        self.machines = machines
        self.name = name

    def touch(self) -> None:
        """Let jobs go on."""
        for machine in self.machines:
            (machine.home / self.name).touch()


class SshControllerWorld(World):
    """A controller here, and hosts on the machines of a test world."""

    def __init__(self, folder: Path, machines: SshWorld) -> None:
        super().__init__(folder)
        self.world = machines
        self.machines = machines.machines
        self.controls = control_folder(self.data / "engines" / "ssh")

    def gate(self) -> Gate:  # type: ignore[override]  # it lies on other machines
        """Name a file for which a job can wait."""
        made = Gate(self.machines, f"gate-{len(self.gates)}-{secrets.token_hex(2)}")
        self.gates.append(made)  # type: ignore[arg-type]  # likewise
        return made

    def source(self, body: str = "", *, gate: Gate | None = None) -> tuple[str, str]:  # type: ignore[override]
        """Write code that says on its machine that it ran, waits for its gate, and does ``body``."""
        word = secrets.token_hex(4)
        text = _PROGRAM.format(home=disk.HOME, ran=_RAN, word=word)
        text += _WAIT.format(gate=gate.name) if gate is not None else ""
        return text + textwrap.dedent(body) + '\nprint("done", flush=True)\n', word

    def submit(self, body: str = "", *, gate: Gate | None = None, **fields: Any) -> Ran:  # type: ignore[override]
        """Hand a job in for machine one, unless ``engine`` says another one."""
        wish = {"engine": "ssh:smx-one", "python": "", "keep_alive": 0}
        return super().submit(body, gate=gate, **(wish | fields))  # type: ignore[arg-type]

    def runs(self, word: str) -> int:
        """Count how often the code with this word began, on all machines together."""
        files = [machine.home / _RAN for machine in self.machines]
        return sum(path.read_text().split().count(word) for path in files if path.exists())

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

    def end_masters(self) -> None:
        """End the connections, which outlive the controller for a while by themselves."""
        for path in self.controls.glob("????????????"):
            words = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(words, capture_output=True, check=False)
        shutil.rmtree(self.controls, ignore_errors=True)


def living(machine: Machine) -> list[Any]:
    """List the account's processes on a machine; none of one that is off."""
    return list(machine.processes()) if machine.is_on else []


def _leads(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False

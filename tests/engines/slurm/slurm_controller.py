"""A controller of a test's own with hosts on the nodes of a cluster; a job's gate lies in the home on each node.

``tests/faults/world.py`` has what is not of nodes.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import textwrap
from typing import TYPE_CHECKING, Any

from world import Ran, World
from worlds.ssh import disk

from jupyter_smx.engines.slurm import submission
from jupyter_smx.engines.ssh.engine import control_folder
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from worlds.slurm.slurm_world import SlurmWorld
    from worlds.ssh.machine import Machine

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
    """A file for which jobs wait on whatever node they are; it is opened on all."""

    def __init__(self, machines: list[Machine], name: str) -> None:
        self.machines = machines
        self.name = name

    def touch(self) -> None:
        """Let jobs go on."""
        for machine in self.machines:
            if machine.is_on:
                (machine.home / self.name).touch()


class SlurmControllerWorld(World):
    """A controller here, and hosts on the nodes of a cluster."""

    def __init__(self, folder: Path, cluster: SlurmWorld) -> None:
        super().__init__(folder)
        self.slurm = cluster

    def gate(self) -> Gate:  # type: ignore[override]  # it lies on other machines
        """Name a file for which a job can wait."""
        made = Gate(self.slurm.nodes, f"gate-{len(self.gates)}-{secrets.token_hex(2)}")
        self.gates.append(made)  # type: ignore[arg-type]  # likewise
        return made

    def source(self, body: str = "", *, gate: Gate | None = None) -> tuple[str, str]:  # type: ignore[override]
        """Write code that says on its node that it ran, waits for its gate, and does ``body``."""
        word = secrets.token_hex(4)
        text = _PROGRAM.format(home=disk.HOME, ran=_RAN, word=word)
        text += _WAIT.format(gate=gate.name) if gate is not None else ""
        return text + textwrap.dedent(body) + '\nprint("done", flush=True)\n', word

    def submit(self, body: str = "", *, gate: Gate | None = None, **fields: Any) -> Ran:  # type: ignore[override]
        """Hand a job in for one node, for ten minutes."""
        wish = {"engine": "slurm", "python": "", "keep_alive": 0, "max_run": 600}
        return super().submit(body, gate=gate, **(wish | fields))  # type: ignore[arg-type]

    def runs(self, word: str) -> int:
        """Count how often the code with this word began, on all nodes together; nodes may share one home."""
        files = [machine.home / _RAN for machine in self.slurm.nodes]
        found = {path.stat().st_ino: path for path in files if path.exists()}
        return sum(path.read_text().split().count(word) for path in found.values())

    def agents(self) -> list[int]:
        """Find the agents on all nodes."""
        return [
            seen.pid
            for seen in process_scan.processes("JUPYTER_SMX_HOST=")
            if " serve /tmp/jupyter_smx-" in seen.command and os.getsid(seen.pid) == seen.pid
        ]

    def job_id(self) -> str:
        """Give the id of the one job that Slurm has of this controller."""
        (job,) = set(self.slurm.run("squeue --noheader --format=%A").split())
        return job

    def submissions(self) -> list[str]:
        """Name each job that Slurm got from this controller, once for each time."""
        owner = (self.data / "engines" / "slurm" / "id").read_text()
        names = self.slurm.run("squeue --noheader --states=all --format=%j").split()
        return [name for name in names if submission.cluster_of(owner, name)]

    def close(self) -> None:
        """End everything, and check that Slurm has no job."""
        try:
            super().close()
            eventually_blocking(lambda: not self.slurm.jobs(), "no job is left", within=PATIENCE)
        finally:
            self._end_masters()
            self.slurm.cancel_all()
            for machine in self.slurm.nodes:
                if machine.is_on:
                    (machine.home / _RAN).unlink(missing_ok=True)

    def _end_masters(self) -> None:
        for path in control_folder(self.data / "engines" / "ssh").glob("????????????"):
            words = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(words, capture_output=True, check=False)

"""A controller of a test's own with hosts on the machines of a test world; a job's gate lies in the home on each.

``tests/faults/world.py`` has what is not of other machines.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import textwrap
from typing import TYPE_CHECKING

from world import World
from worlds.ssh import disk

from jupyter_smx.engines.ssh.engine import control_folder

if TYPE_CHECKING:
    from pathlib import Path

    from worlds.ssh.machine import Machine

PATIENCE = 60.0
RAN = "ran"
"""File in the home of a machine with a word of each job that began there."""
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
    """A file for which jobs wait on whatever machine they are; it is opened on all that have a home."""

    def __init__(self, machines: list[Machine], name: str) -> None:
        self.machines = machines
        self.name = name

    def touch(self) -> None:
        """Let jobs go on."""
        for machine in self.machines:
            if machine.home.exists():
                (machine.home / self.name).touch()


class MachinesControllerWorld(World):
    """A controller on this machine, and hosts on ``machines``."""

    def __init__(self, folder: Path, machines: list[Machine]) -> None:
        super().__init__(folder)
        self.machines = machines
        self.controls = control_folder(self.data / "engines" / "ssh")

    def gate(self) -> Gate:  # type: ignore[override]  # it lies on other machines
        """Name a file for which a job can wait."""
        gate = Gate(self.machines, f"gate-{len(self.gates)}-{secrets.token_hex(2)}")
        self.gates.append(gate)  # type: ignore[arg-type]  # likewise
        return gate

    def source(self, body: str = "", *, gate: Gate | None = None) -> tuple[str, str]:  # type: ignore[override]
        """Write code that says on its machine that it ran, waits for its gate, and does ``body``."""
        word = secrets.token_hex(4)
        text = _PROGRAM.format(home=disk.HOME, ran=RAN, word=word)
        text += _WAIT.format(gate=gate.name) if gate is not None else ""
        return text + textwrap.dedent(body) + '\nprint("done", flush=True)\n', word

    def runs(self, word: str) -> int:
        """Count how often the code with this word began, on all machines together; they may share one home."""
        files = [machine.home / RAN for machine in self.machines]
        stats = {path: path.stat() for path in files if path.exists()}
        once = {(stat.st_dev, stat.st_ino): path for path, stat in stats.items()}
        return sum(path.read_text().split().count(word) for path in once.values())

    def end_masters(self) -> None:
        """End the connections, which outlive the controller for a while by themselves."""
        for path in self.controls.glob("????????????"):
            words = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(words, capture_output=True, check=False)
        shutil.rmtree(self.controls, ignore_errors=True)

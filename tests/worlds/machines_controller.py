"""A controller of a test's own with hosts on the machines of a test world; a job's gate lies in the home on each.

``tests/faults/world.py`` has what is not of other machines.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from world import World
from worlds.ssh import disk

from jupyter_smx.engines.ssh.engine import control_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pytest
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
    """A file in the homes of a user for which jobs wait on whatever machine they are."""

    def __init__(self, machines: list[Machine], user: disk.User, name: str) -> None:
        self.machines = machines
        self.user = user
        self.name = name

    def touch(self) -> None:
        """Let jobs go on, on all machines that have a home of the user."""
        for machine in self.machines:
            home = machine.home_of(self.user)
            if home.exists():
                (home / self.name).touch()


class MachinesControllerWorld(World):
    """A controller on this machine, and hosts on ``machines``, where they run as ``user``."""

    def __init__(self, folder: Path, machines: list[Machine], user: disk.User = disk.FAR_USER) -> None:
        super().__init__(folder)
        self.machines = machines
        self.user = user
        self.controls = control_folder(self.data / "engines" / "ssh")

    def gate(self) -> Gate:  # type: ignore[override]  # it lies on other machines
        """Name a file for which a job can wait."""
        gate = Gate(self.machines, self.user, f"gate-{len(self.gates)}-{secrets.token_hex(2)}")
        self.gates.append(gate)  # type: ignore[arg-type]  # likewise
        return gate

    def source(self, body: str = "", *, gate: Gate | None = None) -> tuple[str, str]:  # type: ignore[override]
        """Write code that says on its machine that it ran, waits for its gate, and does ``body``."""
        word = secrets.token_hex(4)
        text = _PROGRAM.format(home=self.user.home, ran=RAN, word=word)
        text += _WAIT.format(gate=gate.name) if gate is not None else ""
        return text + textwrap.dedent(body) + '\nprint("done", flush=True)\n', word

    def runs(self, word: str) -> int:
        """Count how often the code with this word began, on all machines together; they may share one home."""
        files = [machine.home_of(self.user) / RAN for machine in self.machines]
        stats = {path: path.stat() for path in files if path.exists()}
        once = {(stat.st_dev, stat.st_ino): path for path, stat in stats.items()}
        return sum(path.read_text().split().count(word) for path in once.values())

    def sweep(self, engine: str) -> list[str]:
        """Let the controller end what has no record; give what it ended."""
        ended = self.client.fix(engine)
        return [line for lines in ended.values() for line in lines if "files of" not in line]

    def end_masters(self) -> None:
        """End the connections, which outlive the controller for a while by themselves."""
        for path in self.controls.glob("????????????"):
            words = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", "any"]
            subprocess.run(words, capture_output=True, check=False)
        shutil.rmtree(self.controls, ignore_errors=True)


OneWorld = TypeVar("OneWorld", bound=MachinesControllerWorld)


@contextmanager
def second_controller(
    patch: pytest.MonkeyPatch, variables: Mapping[str, str], create: Callable[[], OneWorld]
) -> Iterator[OneWorld]:
    """Give a world with another controller, which runs and is ended after the test.

    ``variables`` are those that this controller has in the place of the first one's, its data folder at least.
    """
    with patch.context() as inner:
        for name, value in variables.items():
            inner.setenv(name, value)
        world = create()
        world.controller()
    yield world
    with patch.context() as inner:
        for name, value in variables.items():
            inner.setenv(name, value)
        world.close()

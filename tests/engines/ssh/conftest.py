"""Connections to the machines of the test world, and a controller with hosts there, ``ssh_controller``.

The first submission starts that controller.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from ssh_controller import SshControllerWorld, provide_agent
from ssh_helpers import Sshs
from world import ROOT, surround

from jupyter_smx.engines import registry
from jupyter_smx.testing.data_folder import provide_records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from worlds.ssh.machine import Machine
    from worlds.ssh.ssh_world import SshWorld

_ENTRY_POINT = "[jupyter_smx.engines]\nssh = jupyter_smx.engines.ssh.engine:SshEngine\n"
_SLOTS = 4


@pytest.fixture
async def sshs(ssh_world: SshWorld) -> AsyncIterator[Sshs]:
    folder = Path(tempfile.mkdtemp(prefix="smx-ssh-", dir="/tmp"))  # TMPDIR may be too long for sockets
    made = Sshs(ssh_world, folder)
    yield made
    for connection in made.connections:
        await connection.close()
    left = made.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder)
    assert left == {}


@pytest.fixture
def one(ssh_world: SshWorld) -> Machine:
    machine = ssh_world["one"]
    machine.wipe()
    return machine


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    """Give ``configure(text)``, which adds lines to the configuration before a controller starts."""

    def add(text: str) -> None:
        with (tmp_path / "config" / "jupyter_smx_config.py").open("a") as file:
            file.write(text + "\n")

    return add


@pytest.fixture
def ssh_controller(
    tmp_path: Path, ssh_world: SshWorld, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshControllerWorld]:
    """Give a world whose controller reaches three machines, which have the agent; no controller runs yet."""
    options = {
        "program": os.fspath(ssh_world.bin / "ssh"),
        "connect_timeout": 2.0,
        "grace": 0.5,
        "machines": {machine.alias: {"slots": _SLOTS} for machine in ssh_world.machines},
    }
    text = "".join(f"c.SshEngine.{name} = {value!r}\n" for name, value in options.items())
    surround(monkeypatch, tmp_path, f"{text}c.ControllerApp.grace = 0.5\n")
    if "ssh" not in registry.installed_engines():
        _install(tmp_path / "site", monkeypatch)
    for machine in ssh_world.machines:
        machine.wipe()  # an earlier test may have left files and sessions there
        provide_agent(machine)
    made = SshControllerWorld(tmp_path, ssh_world)
    provide_records(made.data)
    yield made
    ssh_world.reset()
    made.close()


@pytest.fixture
def empty_homes(ssh_controller: SshControllerWorld) -> None:
    """Take the agent off the machines, for a test that is also about its way there."""
    for machine in ssh_controller.machines:
        machine.wipe()


def _install(site: Path, patch: pytest.MonkeyPatch) -> None:
    """Write what an installation made before this engine lacks."""
    installed = site / "ssh_engine-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ssh-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(_ENTRY_POINT)
    patch.setenv("PYTHONPATH", os.pathsep.join(map(os.fspath, (ROOT, site))))

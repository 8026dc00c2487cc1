"""Connections to the machines of the test world, and controllers with hosts there.

``ssh_controller`` is a test's own, which its first submission starts. ``shared_controller`` is that of the module.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from ssh_controller import SshControllerWorld, living, provide_agent
from ssh_helpers import Sshs
from world import ROOT, surround
from worlds.ssh.machine import kill

from jupyter_smx.engines import registry
from jupyter_smx.testing.data_folder import provide_data_folder

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


@contextmanager
def _controller_world(
    folder: Path, ssh_world: SshWorld, patch: pytest.MonkeyPatch, configuration: str = ""
) -> Iterator[SshControllerWorld]:
    options = {
        "program": os.fspath(ssh_world.bin / "ssh"),
        "connect_timeout": 2.0,
        "grace": 0.5,
        "machines": {machine.alias: {"slots": _SLOTS} for machine in ssh_world.machines},
    }
    text = "".join(f"c.SshEngine.{name} = {value!r}\n" for name, value in options.items())
    surround(patch, folder, f"{text}c.ControllerApp.grace = 0.5\n{configuration}\n")
    if "ssh" not in registry.installed_engines():
        _install(folder / "site", patch)
    for machine in ssh_world.machines:
        machine.wipe()  # an earlier test may have left files and sessions there
        provide_agent(machine)
    made = SshControllerWorld(folder, ssh_world)
    try:
        provide_data_folder(made.data)
        yield made
    finally:
        ssh_world.reset()
        made.close()


@pytest.fixture
def ssh_controller(
    tmp_path: Path, ssh_world: SshWorld, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshControllerWorld]:
    """Give a world whose controller reaches three machines, which have the agent; no controller runs yet."""
    with _controller_world(tmp_path, ssh_world, monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def configuration_of_module() -> str:
    """Give more lines of the configuration of the module's controller; a module may have some."""
    return ""


@pytest.fixture(scope="module")
def controller_of_module(
    tmp_path_factory: pytest.TempPathFactory, ssh_world_of_session: SshWorld, configuration_of_module: str
) -> Iterator[SshControllerWorld]:
    """Give a world with a controller that runs already."""
    folder = tmp_path_factory.mktemp("module")
    with (
        pytest.MonkeyPatch.context() as patch,
        _controller_world(folder, ssh_world_of_session, patch, configuration_of_module) as made,
    ):
        made.controller()
        yield made


@pytest.fixture
def shared_controller(controller_of_module: SshControllerWorld, ssh_world: SshWorld) -> Iterator[SshControllerWorld]:
    """Give the world of the module's controller, for a test that neither ends nor configures it.

    After the test it has no jobs and pools, and nothing runs on the machines.
    """
    for machine in ssh_world.machines:
        provide_agent(machine)  # a test with a controller of its own has emptied their disks
    yield controller_of_module
    try:
        ssh_world.reset()
        controller_of_module.empty()
        controller_of_module.until_nothing_is_left()
    finally:
        for process in itertools.chain.from_iterable(map(living, ssh_world.machines)):
            kill(process.pid)


@pytest.fixture
def empty_home(shared_controller: SshControllerWorld) -> None:
    """Take the agent off machine one, for a test that is also about its way there; its connections end."""
    shared_controller.world["one"].wipe()


def _install(site: Path, patch: pytest.MonkeyPatch) -> None:
    """Write what an installation made before this engine lacks."""
    installed = site / "ssh_engine-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: ssh-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(_ENTRY_POINT)
    patch.setenv("PYTHONPATH", os.pathsep.join(map(os.fspath, (ROOT, site))))

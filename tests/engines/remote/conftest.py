"""A remote machine for each test: ``remote`` gives it with a controller of its own that another process runs.

A test submits with ``remote.submit(…)`` or by ``jupyter smx run … --engine toy``, closes the gateway with
``remote.gateway.close()``, and kills the controller with ``kill(remote.controller())`` of ``world``.
``configure("c.ToyEngine… = …")`` sets an option before the first controller starts.
Tests of a file that neither end nor configure a controller have one in common: ``shared_remote``.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from gateway import GatewayServer
from world import ROOT, Ran, World, surround

from jupyter_smx.kernel.api import session
from jupyter_smx.testing import process_scan
from jupyter_smx.testing.data_folder import provide_archive, provide_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ENTRY_POINTS = "[jupyter_smx.engines]\ntoy = toy_engine:ToyEngine\nshell = shell_engine:ShellEngine\n"


class RemoteWorld(World):
    """A controller here, and hosts on a machine that shows it no folder."""

    def __init__(self, folder: Path, machine: Path, gateway: GatewayServer) -> None:
        super().__init__(folder)
        self.machine = machine
        self.gateway = gateway

    def submit(self, body: str = "", *, gate: Path | None = None, **fields: Any) -> Ran:
        """Hand a job in for the machine."""
        return super().submit(body, gate=gate, **({"engine": "toy"} | fields))

    def agents(self) -> list[int]:
        """Find the agents of the machine."""
        return [pid for path in self.machine.glob("clusters/*") for _, pid in process_scan.find_agents(path.name)]

    def clusters_ever(self) -> int:
        """Count the clusters that the machine ever had."""
        return sum(1 for _ in self.machine.glob("clusters/*"))

    def empty(self) -> None:
        """Open the gateway, then stop all jobs and release all pools."""
        self.gateway.grant()
        self.gateway.open()
        super().empty()


@pytest.fixture
def round_trip() -> float:
    """Give the seconds that a question to the machine and its answer take; a test may parametrize it."""
    return 0.0


@pytest.fixture
def gateway(round_trip: float) -> Iterator[GatewayServer]:
    """Give an open gateway."""
    made = GatewayServer(round_trip)
    yield made
    made.shut_down()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the machine's disk, which is not in the test's own folder."""
    return tmp_path_factory.mktemp("machine")


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    """Give ``configure(text)``, which adds lines to the configuration before a controller starts."""

    def add(text: str) -> None:
        with (tmp_path / "config" / "jupyter_smx_config.py").open("a") as file:
            file.write(text + "\n")

    return add


@contextmanager
def remote_world(
    folder: Path, machine: Path, gateway: GatewayServer, patch: pytest.MonkeyPatch
) -> Iterator[RemoteWorld]:
    """Make a world with a remote machine, whose controller starts at the first request and ends with the block."""
    hidden = [folder / "smx", folder / "home"]
    for each in hidden:
        each.mkdir(mode=0o700)
    options = {"data_dir": os.fspath(machine), "gateway": gateway.path, "hidden_folders": [*map(os.fspath, hidden)]}
    text = "".join(f"c.ToyEngine.{name} = {value!r}\n" for name, value in options.items())
    surround(patch, folder, f"{text}c.ControllerApp.grace = 0.5\nc.ToyEngine.grace = 0.5\n")
    installed = folder / "site" / "toy_engine-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRY_POINTS)
    patch.setenv("PYTHONPATH", os.pathsep.join(map(os.fspath, (ROOT, installed.parent, HERE))))
    made = RemoteWorld(folder, machine, gateway)
    try:
        provide_records(made.data)
        provide_archive(machine)
        yield made
    finally:
        made.close()


@pytest.fixture
def remote(
    tmp_path: Path, machine: Path, gateway: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RemoteWorld]:
    """Give a world with the remote machine; no controller runs yet."""
    with remote_world(tmp_path, machine, gateway, monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def remote_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteWorld]:
    folder, machine = tmp_path_factory.mktemp("remote"), tmp_path_factory.mktemp("machine")
    gateway = GatewayServer()
    try:
        with pytest.MonkeyPatch.context() as patch, remote_world(folder, machine, gateway, patch) as made:
            made.controller()  # here, since a test may leave only processes that were there before it
            yield made
    finally:
        gateway.shut_down()


@pytest.fixture
def shared_remote(remote_of_module: RemoteWorld) -> Iterator[RemoteWorld]:
    """Give a world without pools, for a test that neither ends nor configures the controller that others use, too."""
    yield remote_of_module
    remote_of_module.empty()


@pytest.fixture
def shell(remote: RemoteWorld) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Give a notebook's shell in the same world."""
    config = Config()
    config.HistoryManager.enabled = False
    made: InteractiveShell = InteractiveShell(config=config)  # type: ignore[no-untyped-call]
    # At the end of the process it would collect garbage, as hundreds of others do: minutes in all.
    atexit.unregister(made.atexit_operations)
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()

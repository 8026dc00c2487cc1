"""A controller with hosts on the nodes of a cluster, ``slurm_controller``; the first submission starts it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "faults"))

from slurm_controller import PATIENCE, SlurmControllerWorld
from world import ROOT, surround
from worlds.ssh import disk

from jupyter_smx.engines import registry
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worlds.slurm.slurm_world import SlurmWorld

_ENTRY_POINTS = """\
[jupyter_smx.engines]
ssh = jupyter_smx.engines.ssh.engine:SshEngine
slurm = jupyter_smx.engines.slurm.engine:SlurmEngine
"""


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    """Give ``configure(text)``, which adds lines to the configuration before a controller starts."""

    def add(text: str) -> None:
        with (tmp_path / "config" / "jupyter_smx_config.py").open("a") as file:
            file.write(text + "\n")

    return add


@pytest.fixture(params=["node", "laptop"])
def login(request: pytest.FixtureRequest) -> str:
    """Say where the controller is: on the login node, or on a machine that reaches it by ssh."""
    return str(request.param)


@pytest.fixture
def cluster(slurm_world: SlurmWorld) -> SlurmWorld:
    """Give the cluster of the session; a module may have another one."""
    return slurm_world


@contextmanager
def _controller_world(
    folder: Path, cluster: SlurmWorld, patch: pytest.MonkeyPatch, login: str
) -> Iterator[SlurmControllerWorld]:
    options: dict[str, object] = {"python": disk.PYTHON, "grace": 0.5, "command_timeout": 10.0}
    if login == "laptop":
        options["login"] = cluster.login.alias
    else:
        options["variables"] = {"PATH": f"{cluster.programs}:{os.environ['PATH']}"}
    lines = [f"c.SlurmEngine.{name} = {value!r}" for name, value in options.items()]
    lines += [f"c.SshEngine.program = {os.fspath(cluster.ssh.bin / 'ssh')!r}", "c.SshEngine.connect_timeout = 2.0"]
    surround(patch, folder, "\n".join([*lines, "c.ControllerApp.grace = 0.5", ""]))
    if "slurm" not in registry.installed_engines():
        _install(folder / "site", patch)
    made = SlurmControllerWorld(folder, cluster)
    try:
        provide_data_folder(made.data)
        yield made
    finally:
        made.close()


@pytest.fixture
def slurm_controller(
    tmp_path: Path, cluster: SlurmWorld, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[SlurmControllerWorld]:
    """Give a world whose controller reaches a cluster, from its login node unless the test has ``login``."""
    login = request.getfixturevalue("login") if "login" in request.fixturenames else "node"
    with _controller_world(tmp_path, cluster, monkeypatch, login) as made:
        yield made


@pytest.fixture(scope="module")
def controller_of_module(
    tmp_path_factory: pytest.TempPathFactory, slurm_world_of_session: SlurmWorld
) -> Iterator[SlurmControllerWorld]:
    """Give a world with a controller on the login node that runs already."""
    folder = tmp_path_factory.mktemp("module")
    with (
        pytest.MonkeyPatch.context() as patch,
        _controller_world(folder, slurm_world_of_session, patch, "node") as made,
    ):
        made.controller()
        yield made


@pytest.fixture
def shared_controller(
    controller_of_module: SlurmControllerWorld, cluster: SlurmWorld
) -> Iterator[SlurmControllerWorld]:
    """Give the world of the module's controller; after the test it has no jobs and pools, and Slurm has none of it."""
    user = controller_of_module.user.name
    yield controller_of_module
    try:
        controller_of_module.empty()
        eventually_blocking(lambda: not cluster.jobs(user=user), "no job is left", within=PATIENCE)
    finally:
        cluster.cancel_all(user)


@pytest.fixture
def controller_of_login(
    login: str, shared_controller: SlurmControllerWorld, request: pytest.FixtureRequest
) -> SlurmControllerWorld:
    """Give the controller of the module on the login node, and one of the test's own on a laptop."""
    if login == "node":
        return shared_controller
    world: SlurmControllerWorld = request.getfixturevalue("slurm_controller")
    return world


def _install(site: Path, patch: pytest.MonkeyPatch) -> None:
    """Write what an installation made before this engine lacks."""
    installed = site / "slurm_engine-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: slurm-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(_ENTRY_POINTS)
    patch.setenv("PYTHONPATH", os.pathsep.join(map(os.fspath, (ROOT, site))))

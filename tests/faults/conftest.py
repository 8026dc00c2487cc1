"""Worlds: one for each test that kills a controller, others for all tests of a module that harm nothing but hosts."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from world import World, choose_folders, surround

from jupyter_smx.kernel.api import session
from jupyter_smx.testing.data_folder import provide_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE = "c.ControllerApp.grace = 0.5\nc.LocalEngine.grace = 0.5\nc.ControllerApp.max_hosts = 3\n"

PATIENCE = "c.ControllerApp.grace = 20\nc.LocalEngine.grace = 20\n"

Configure = "Callable[[str], None]"


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    """Return ``configure(text)``, which adds lines to the administrator's file before a controller starts."""

    def add(text: str) -> None:
        with (tmp_path / "config" / "jupyter_smx_config.py").open("a") as file:
            file.write(text + "\n")

    return add


@pytest.fixture
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Provide a world of the test's own; no controller runs yet."""
    surround(monkeypatch, tmp_path, GRACE)
    made = World(tmp_path)
    provide_data_folder(made.data)
    yield made
    made.close()


@pytest.fixture
def world(own_world: World) -> World:
    """Provide the test's own world. A module whose tests share one overrides this fixture."""
    return own_world


@pytest.fixture(scope="module")
def _world_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        surround(patch, folder, GRACE)
        made = World(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            choose_folders(patch, folder)
            provide_data_folder(made.data)
            made.controller()  # here, since a test may leave only processes that were there before it
        yield made
    finally:
        with pytest.MonkeyPatch.context() as patch:
            choose_folders(patch, folder)
            made.close()


@pytest.fixture
def shared_world(_world_of_module: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Provide a world without pools to a test that neither ends nor configures the controller that others use, too."""
    choose_folders(monkeypatch, _world_of_module.folder)
    yield _world_of_module
    _world_of_module.empty()


def _warm(folder: Path, more: str = "") -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        surround(patch, folder, GRACE + more)
        made = World(folder)
        try:
            provide_data_folder(made.data)
            made.warm()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Provide the module's world, whose controller is never killed, and which has a warm pool."""
    yield from _warm(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Provide a world with a warm pool, and with room for the pools of all tests of the module."""
    yield from _warm(tmp_path_factory.mktemp("roomy"), "c.ControllerApp.max_hosts = 6\n")


@pytest.fixture(scope="module")
def _pools(roomy: World, request: pytest.FixtureRequest) -> World:
    for groups in (request.module.TWO, request.module.GROUPS):
        roomy.run(instance_groups=groups)
    return roomy


@pytest.fixture
def pools(_pools: World) -> Iterator[World]:
    """Provide the module's world with idle warm pools for jobs on ``TWO`` and on ``GROUPS`` of the module."""
    yield _pools.until_idle()
    _pools.stop_jobs()  # of a test that failed


@pytest.fixture(scope="module")
def far() -> Iterator[World]:
    """Provide a world with a warm pool outside ``/tmp``, so that each of its hosts may have a ``/tmp`` of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield from _warm(Path(folder))


@pytest.fixture(scope="module")
def patient() -> Iterator[World]:
    """Provide a world with a warm pool, outside ``/tmp``, whose jobs have time to end."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield from _warm(Path(folder), PATIENCE)


def _shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    made: InteractiveShell = InteractiveShell(config=config)  # type: ignore[no-untyped-call]
    # Otherwise it collects garbage at the end of the process, as hundreds of others do: minutes in all.
    atexit.unregister(made.atexit_operations)
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()


@pytest.fixture
def shell(world: World) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Provide a shell in the test's own world, in which no controller runs yet."""
    yield from _shell()


@pytest.fixture
def warm_shell(shared: World) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Provide a shell in the module's world, which has a warm pool."""
    yield from _shell()

"""A real Jupyter server with the extension, and a fake controller on a real unix socket."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from pytest_jupyter.jupyter_server import *  # noqa: F403 - fixtures are found by their names here
from traitlets.config import Config

from jupyter_smx import controller_launch
from jupyter_smx.testing.eventually import eventually as wait_until

sys.path.insert(0, str(Path(__file__).parent))

from fake_controller import FakeController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from jupyter_server.serverapp import ServerApp

    from jupyter_smx.server.app import SmxServerExtension

# pytest-asyncio runs the tests; pytest-jupyter's hooks would run them on another loop than its own fixtures.
del pytest_pyfunc_call, pytest_pycollect_makeitem  # type: ignore[name-defined]  # noqa: F821


@pytest_asyncio.fixture(autouse=True)
async def jp_asyncio_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    controller_launch.ensure_folders()
    return folder


@pytest.fixture
def jp_server_config() -> Config:
    return Config(
        {
            "ServerApp": {
                "jpserver_extensions": {"jupyter_smx": True, "jupyter_server_terminals": False},
                "allow_unauthenticated_access": False,
            }
        }
    )


@pytest_asyncio.fixture
async def controller() -> AsyncIterator[FakeController]:
    fake = FakeController()
    fake.listen()
    yield fake
    await fake.close()


@pytest.fixture
def extension(jp_serverapp: ServerApp) -> SmxServerExtension:
    return jp_serverapp.extension_manager.extension_apps["jupyter_smx"].copy().pop()


@pytest_asyncio.fixture
async def following(extension: SmxServerExtension, jp_serverapp: ServerApp) -> AsyncIterator[SmxServerExtension]:
    """The extension as it is after the server's start, with its relay at work."""
    await extension._start_jupyter_server_extension(jp_serverapp)
    yield extension
    await extension.stop_extension()


@pytest.fixture
def started_controllers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Processes that the extension started; each is a fake controller in a process of its own."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(python: str = sys.executable) -> subprocess.Popen[bytes]:
        script = Path(__file__).parent / "fake_controller.py"
        controller_launch.ensure_folders()
        process = subprocess.Popen([python, str(script), controller_launch.socket_address()], start_new_session=True)
        processes.append(process)
        return process

    monkeypatch.setattr(controller_launch, "start_controller", start)
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def eventually() -> Any:
    return wait_until

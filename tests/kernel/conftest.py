"""A shell without a terminal, and its controller: a fake one, or a real one with all that it starts."""

from __future__ import annotations

import atexit
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_smx import controller_launch
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything, stop_hosts

sys.path.insert(0, str(Path(__file__).parent))

from scripted_controller import ScriptedController

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "smx"
    _choose_folders(monkeypatch, folder, tmp_path)
    return folder


def _choose_folders(monkeypatch: pytest.MonkeyPatch, data_folder: Path, other: Path) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(data_folder))
    monkeypatch.setenv("IPYTHONDIR", str(other / "ipython"))
    monkeypatch.delenv("SMX_WAIT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.fixture
def controller(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedController]:  # noqa: ARG001 - it must be there first
    """Provide a fake controller; a start on demand returns this one."""
    fake = ScriptedController()
    monkeypatch.setattr(autostart, "start", fake.start)
    fake.start()
    yield fake
    fake.stop()


def _shell() -> InteractiveShell:
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell(config=config)
    # At the end of the process it would collect garbage, as hundreds of others do: minutes in all.
    atexit.unregister(made.atexit_operations)
    made.run_line_magic("load_ext", "jupyter_smx")
    return made


@pytest.fixture
def shell(controller: ScriptedController) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Provide a shell with the extension loaded; its output is text."""
    yield _shell()
    session.close_session()


@pytest.fixture
def real(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the test's working folder. The first request starts a real controller; all of it ends with the test."""
    monkeypatch.chdir(tmp_path)
    provide_data_folder(data_folder)
    yield tmp_path
    stop_everything()
    assert data_folder.exists()


@pytest.fixture
def notebook(real: Path) -> InteractiveShell:  # noqa: ARG001 - it must be there first
    """Provide a shell whose first job starts a real controller."""
    return _shell()


@pytest.fixture(scope="module")
def _controller_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a real controller for all tests of a module, and return its data folder."""
    folder = tmp_path_factory.mktemp("shared") / "smx"
    with pytest.MonkeyPatch.context() as patch:
        _choose_folders(patch, folder, folder.parent)
        provide_data_folder(folder)
        with closing(autostart.client()) as client:
            client.controller_info()
        yield folder
        stop_everything()


@pytest.fixture
def shared_notebook(
    _controller_of_module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InteractiveShell]:
    """Provide a shell like ``notebook``, whose controller serves all tests of the module; hosts end with the test."""
    _choose_folders(monkeypatch, _controller_of_module, tmp_path)
    monkeypatch.chdir(tmp_path)
    yield _shell()
    stop_hosts()


class Screenshots:
    """Collects what a front end would draw."""

    is_publishing = False

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def publish(self, data: dict[str, Any], metadata: object = None, **how: Any) -> None:
        del metadata
        self.shown.append({"data": data, **how})

    def cards(self) -> list[dict[str, Any]]:
        return [shot["data"]["application/vnd.jupyter-smx.card+json"] for shot in self.shown if "transient" in shot]


@pytest.fixture
def front_end(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Screenshots:
    """Make the shell look like a kernel whose front end can ask the user for input."""
    shots = Screenshots()

    class Kernel:
        def get_parent(self) -> dict[str, Any]:
            return {"content": {"allow_stdin": True}}

    monkeypatch.setattr(type(shell), "kernel", Kernel(), raising=False)
    monkeypatch.setattr(shell, "display_pub", shots)
    return shots

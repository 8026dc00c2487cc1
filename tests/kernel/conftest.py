"""A shell without a terminal, and a fake controller that it finds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_smx import launch
from jupyter_smx.kernel import session, standby

sys.path.insert(0, str(Path(__file__).parent))

from scripted_controller import ScriptedController

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "smx"
    monkeypatch.setenv(launch.DATA_DIR_VARIABLE, str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("SMX_WAIT", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    return folder


@pytest.fixture
def controller(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedController]:  # noqa: ARG001 - it must be there first
    """Give a fake controller; one that is started on demand is this one again."""
    fake = ScriptedController()
    monkeypatch.setattr(standby, "start", fake.start)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def shell(controller: ScriptedController) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Give a shell with the extension loaded; its screen is text."""
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell(config=config)
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()


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
    """Make the shell look like a kernel whose front end may be asked for input: a person is there."""
    shots = Screenshots()

    class Kernel:
        def get_parent(self) -> dict[str, Any]:
            return {"content": {"allow_stdin": True}}

    monkeypatch.setattr(type(shell), "kernel", Kernel(), raising=False)
    monkeypatch.setattr(shell, "display_pub", shots)
    return shots

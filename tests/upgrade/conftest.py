"""What 6b340c9 recorded, restored once with a controller of this tree on it, and what it said then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from recorded_data import FIXTURE, Asker, controller, restore, variables
from traitlets.config import Config

from jupyter_smx.kernel.api import session

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def said() -> dict[str, Any]:
    """Give what the package of 6b340c9 answered, by path, page or state of the pool."""
    told: dict[str, Any] = json.loads((FIXTURE / "answers.json").read_text(encoding="utf-8"))
    return told


@pytest.fixture(scope="session")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """Give the way to a controller on the data folder of 6b340c9, whose pool has lost its host."""
    folder = tmp_path_factory.mktemp("upgrade")
    restore(folder, 600.0)
    (folder / "work").mkdir()
    with controller(folder) as made:
        made.wait_for_pool_end()
        yield made


@pytest.fixture
def asker(restored: Asker, monkeypatch: pytest.MonkeyPatch) -> Asker:
    """Give that controller, and let commands and kernels of the test work with it."""
    for name, value in variables(restored.folder).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return restored


@pytest.fixture
def shell(asker: Asker) -> Iterator[InteractiveShell]:  # noqa: ARG001 - it must be there first
    """Give a shell with the magics."""
    config = Config()
    config.HistoryManager.enabled = False
    made: InteractiveShell = InteractiveShell(config=config)  # type: ignore[no-untyped-call]
    made.run_line_magic("load_ext", "jupyter_smx")
    yield made
    session.close_session()

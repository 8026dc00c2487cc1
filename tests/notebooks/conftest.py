"""A folder to run notebooks in, whose jobs, pools and controller end with the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give an empty folder to run in; jobs, pools and the controller that were made there end with it."""
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "data"))
    provide_data_folder(tmp_path / "data")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("SMX_WAIT", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    yield work
    stop_everything()

"""A folder to run notebooks in: jobs and pools end with the test, the controller with the module."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything, stop_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def _controller_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start a controller for all tests of a module, and return its data folder."""
    data_folder = tmp_path_factory.mktemp("controller") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(data_folder))
        provide_data_folder(data_folder)
        with closing(autostart.client()) as client:
            client.controller_info()
        yield data_folder
        stop_everything()


@pytest.fixture
def folder(_controller_of_module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give an empty folder to run in; jobs and pools that were made there end with it."""
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(_controller_of_module))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.delenv("SMX_WAIT", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    yield work
    stop_hosts()

"""Data folders whose front and controller end with the test or the file, and nothing of AWS from outside."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import process
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a data folder of the test's own."""
    with _stop_at_end(tmp_path / "smx", monkeypatch) as folder:
        yield folder


@pytest.fixture(scope="module")
def shared_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a data folder of the file, where a real controller runs."""
    with (
        pytest.MonkeyPatch.context() as patch,
        _stop_at_end(tmp_path_factory.mktemp("endpoint") / "smx", patch) as folder,
    ):
        provide_data_folder(folder)
        with closing(autostart.client()) as client:
            client.controller_info()
        yield folder


@contextmanager
def _stop_at_end(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Name a data folder to all that starts; at the end, stop its front and its controller."""
    patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    for name in [name for name in os.environ if name.startswith(("AWS_", "JUPYTER_SMX_AWS", "JUPYTER_SMX_BEFORE"))]:
        patch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, str(folder.with_name(name)))
    try:
        yield folder
    finally:
        process.stop_front()
        if (folder / "controller.lock").exists():
            stop_everything()

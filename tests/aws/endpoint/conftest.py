"""A data folder whose front and controller end with the test, and no variable of AWS from outside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import process
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a data folder of the test's own."""
    folder = tmp_path / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    for name in [name for name in os.environ if name.startswith(("AWS_", "JUPYTER_SMX_AWS", "JUPYTER_SMX_BEFORE"))]:
        monkeypatch.delenv(name)
    yield folder
    process.stop_front()
    if (folder / "controller.lock").exists():
        stop_everything()

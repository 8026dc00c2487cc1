from __future__ import annotations

import errno
import os
import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

from jupyter_smx import controller_launch, controller_launch_errors

if TYPE_CHECKING:
    import pytest


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_controller_that_had_no_room_for_its_last_words_is_no_riddle(monkeypatch: pytest.MonkeyPatch) -> None:
    controller_launch.ensure_folders()
    controller_launch.log_path().write_text("What an earlier one said, which is not why.\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(1 << 20, 1 << 20, 0))
    error = controller_launch_errors.no_answer_error()
    assert "No space left on device" in error.message
    assert "free some space" in error.cure
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage(1 << 30, 0, 1 << 30))
    assert "What an earlier one said" in controller_launch_errors.no_answer_error().message


def test_a_python_that_is_gone_is_no_fault_of_the_data_folder() -> None:
    error = controller_launch_errors.start_error(
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), sys.executable)
    )
    assert error.field == "python"
    assert str(controller_launch.data_dir()) not in str(error)
    assert "moved or deleted" in error.cure

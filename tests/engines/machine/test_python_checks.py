"""An interpreter that does not start is refused with what it said, and with what its file and file system tell."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.resources import disk
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.model import python_version
from jupyter_smx.model.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

SPEAKS = "#!/bin/sh\necho 'no such version' >&2\necho >&2\necho 'choose another' >&2\nexit 127\n"


def fail(_path: str) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def refusal(folder: Path, text: str, mode: int = 0o755) -> str:
    """Give what is said of a program that is to be a Python."""
    folder.mkdir(exist_ok=True)
    python = folder / "python3.9"
    python.write_text(text)
    python.chmod(mode)
    with pytest.raises(RefusedError) as told:
        request_validation.check_python(os.fspath(python))
    assert told.value.field == "python"
    return told.value.message


def test_what_an_interpreter_says_is_told(tmp_path: Path) -> None:
    said = refusal(tmp_path, SPEAKS)
    assert said.endswith("cannot be started (exit code 127: no such version | choose another).")
    assert refusal(tmp_path, "#!/bin/sh\nexit 3\n").endswith("returned non-zero exit status 3.).")


def test_a_shim_of_pyenv_is_named(tmp_path: Path) -> None:
    shim = f"{SPEAKS}# exec pyenv\n"
    assert "(it is a shim of pyenv, for which no Python is chosen here; " in refusal(tmp_path / "shims", shim)
    assert "shim" not in refusal(tmp_path / "bin", shim).replace(os.fspath(tmp_path), "")


def test_a_file_system_that_starts_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "noexec" not in refusal(tmp_path, SPEAKS, mode=0o644)
    monkeypatch.setattr(python_version.os, "statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    said = refusal(tmp_path, SPEAKS, mode=0o644)
    assert "(its file system is mounted with noexec; [Errno 13] Permission denied" in said


def test_a_system_that_does_not_tell_it_refuses_with_the_error_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(os, "ST_NOEXEC")  # as on macOS
        assert "([Errno 13] Permission denied" in refusal(tmp_path, SPEAKS, mode=0o644)
        assert disk.format_noexec(os.fspath(tmp_path)) == ""
    monkeypatch.setattr(os, "statvfs", fail)
    assert "([Errno 13] Permission denied" in refusal(tmp_path, SPEAKS, mode=0o644)

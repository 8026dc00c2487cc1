"""A job that really ran, as a folder that runs without us."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from projects import project, run
from sagemaker_stand_in import install

import jupyter_smx as smx

if TYPE_CHECKING:
    from pathlib import Path

CELL = """\
import sys
import helper
print(helper.NAME, cfg["lr"], sys.argv[1:])
"""


def test_what_ran_as_a_job_runs_from_its_folder(
    notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path)
    notebook.user_ns["cfg"] = {"lr": 0.1}
    run(notebook, f"%%train --source-dir src --send cfg --hp epochs=3 -t ml.m5.large --as job --wait\n{CELL}")
    job = notebook.user_ns["job"]
    capsys.readouterr()
    run(notebook, "%smx export job out")
    assert f"{job.name} is in {tmp_path}/out: README.md, code/helper.py" in capsys.readouterr().out
    by_hand = subprocess.run(
        [sys.executable, "with_variables.py", "--epochs", "3"],
        cwd=tmp_path / "out" / "code",
        capture_output=True,
        text=True,
        check=True,
    )
    assert by_hand.stdout == job.logs() == "first 0.1 ['--epochs', '3']\n"
    with pytest.raises(SystemExit, match="Set ROLE"):
        program(tmp_path / "out", monkeypatch)
    again = smx.job(job.name).export(tmp_path / "again")
    assert again == tmp_path / "again"
    assert (again / "sagemaker_job.py").read_bytes() == (tmp_path / "out" / "sagemaker_job.py").read_bytes()
    lines = (again / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in lines)
    assert any(line.startswith("cloudpickle==") for line in lines)


def program(folder: Path, patch: pytest.MonkeyPatch) -> None:
    install(patch)
    path = folder / "sagemaker_job.py"
    exec(compile(path.read_text(), path, "exec"), {"__name__": "__main__", "__file__": str(path)})  # noqa: S102 - it is ours

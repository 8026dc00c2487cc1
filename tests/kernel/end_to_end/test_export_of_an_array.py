"""Arrays that really ran, by each of their names, as folders that run without us."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from projects import run

import jupyter_smx as smx
from jupyter_smx.model.errors import ResourceNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

CELL = "import os\nprint('score', os.environ['SM_HP_DEPTH'])\n"


@pytest.fixture
def notebook(shared_notebook: Any) -> Any:
    """Share one controller, which no test here ends."""
    return shared_notebook


def by_hand(folder: Path, script: str, *words: str) -> str:
    command = [sys.executable, script, *words]
    return subprocess.run(command, cwd=folder / "code", capture_output=True, text=True, check=True).stdout


def double(number: int) -> int:
    return 2 * number


def test_a_sweep_is_exported_by_its_names_and_a_task_by_its_own(
    notebook: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "%%train --sweep --hp depth=[1,2] --metric 'score=score ([0-9.]+)' --name grid -k 10m --as swept"
    run(notebook, f"{line}\n{CELL}")
    grid = notebook.user_ns["swept"].wait()
    capsys.readouterr()
    for number, word in enumerate(("grid", grid.name, grid.id, "")):
        run(notebook, f"%smx export {word} out{number}" if word else "swept.export('out3')")
        shown = capsys.readouterr().out
        assert shown.startswith(f"{grid.name} is in") or not word
    programs = {(tmp_path / f"out{number}" / "sagemaker_job.py").read_text() for number in range(4)}
    assert len(programs) == 1
    assert 'strategy="Grid"' in programs.pop()
    tasks = json.loads((tmp_path / "out0" / "job.json").read_text())["tasks"]
    assert [task["metrics"] for task in tasks] == [{"score": 1.0}, {"score": 2.0}]
    run(notebook, f"%smx export {grid[1].name} task")
    assert "HyperparameterTuner" not in (tmp_path / "task" / "sagemaker_job.py").read_text()
    assert json.loads((tmp_path / "task" / "hyperparameters.json").read_text()) == {"depth": 2}
    with pytest.raises(ResourceNotFoundError):
        run(notebook, "%smx export never")


@pytest.mark.usefixtures("notebook")
def test_calls_of_a_function_run_from_their_folder(tmp_path: Path) -> None:
    found = smx.map(double, [3, 4], keep_alive="10m", name="doubles")
    assert found.results() == [6, 8]
    folder = found.export(tmp_path / "out")
    assert sorted(path.name for path in (folder / "variables").iterdir()) == ["0.pkl", "1.pkl"]
    by_hand(folder, "with_variables.py")
    assert "differ in their variables" in (folder / "README.md").read_text()

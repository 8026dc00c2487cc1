"""One notebook, top to bottom, wherever notebooks are run without a person: each magic waits for its job there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import papermill
import pytest
from notebook_files import printed, write

if TYPE_CHECKING:
    from pathlib import Path

PREPARE = """%%process --output squares=:squares --name prepare
import os
folder = os.environ.get("SMX_OUTPUT_SQUARES", "/opt/ml/processing/output/squares")
with open(os.path.join(folder, "n.txt"), "w") as file:
    file.write(" ".join(str(n * n) for n in range(5)))"""

TRAIN = """%%train --keep-alive 1m --input train=squares --hp factor=3 --receive total --as job
import json, os
numbers = open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "n.txt")).read().split()
total = json.loads(os.environ["SM_HPS"])["factor"] * sum(int(n) for n in numbers)"""

CELLS = ("%load_ext jupyter_smx", PREPARE, TRAIN, "print('total', total, job.status)", "%smx jobs")


@pytest.fixture
def notebook(folder: Path) -> Path:
    """Write the notebook."""
    return write(folder / "everywhere.ipynb", CELLS)


def run(folder: Path, *command: str) -> str:
    """Run a command in the folder and give what it printed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=110, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_papermill(notebook: Path, folder: Path) -> None:
    papermill.execute_notebook(notebook, folder / "done.ipynb", cwd=str(folder), progress_bar=False)
    assert "total 90 Completed" in printed(folder / "done.ipynb")


def test_html_of_a_notebook_that_nbconvert_executes_tells_the_end_of_the_job(notebook: Path, folder: Path) -> None:
    run(folder, sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--execute", notebook.name)
    html = (folder / "everywhere.html").read_text()
    assert "total 90 Completed" in html
    assert "InProgress" not in html


def test_plain_ipython_without_a_jupyter_server(folder: Path) -> None:
    script = folder / "everywhere.ipy"
    later = [f"get_ipython().run_cell({cell!r})" for cell in CELLS[1:]]
    script.write_text("\n".join([CELLS[0], *later]))
    assert "total 90 Completed" in run(folder, sys.executable, "-m", "IPython", "--no-banner", script.name)


def test_a_job_that_fails_stops_the_notebook(folder: Path) -> None:
    cells = ("%load_ext jupyter_smx", "%%train\nraise KeyError('gone')", "print('never')")
    path = write(folder / "fails.ipynb", cells)
    with pytest.raises(papermill.PapermillExecutionError, match="KeyError: 'gone'"):
        papermill.execute_notebook(path, folder / "done.ipynb", cwd=str(folder), progress_bar=False)
    assert "never" not in printed(folder / "done.ipynb")

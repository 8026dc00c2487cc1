"""The magics without ``%load_ext``, by the fragment of IPython's configuration that the package installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient

from jupyter_smx.kernel.display.card import MIME

if TYPE_CHECKING:
    from scripted_controller import ScriptedController

ROOT = Path(__file__).parents[3]
FRAGMENT = ROOT / "jupyter-config" / "ipython-config" / "ipython_config.json"


@pytest.fixture(autouse=True)
def installed(data_folder: Path, tmp_path: Path) -> None:  # noqa: ARG001 - sets IPython's folder
    """Put the fragment where IPython reads it, as the wheel puts it into ``etc/ipython`` of its environment."""
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    shutil.copy(FRAGMENT, profile)


def ipython(*lines: str) -> str:
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_wheel_installs_the_fragment() -> None:
    folder = FRAGMENT.parent.relative_to(ROOT)
    assert f'"{folder}" = "etc/ipython"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.processes
def test_nothing_is_loaded_before_a_magic_is_used() -> None:
    said = ipython("import sys", "print([name for name in sys.modules if name.startswith('jupyter_smx')])")
    assert said.strip() == "[]"


@pytest.mark.processes
def test_the_first_use_loads_them() -> None:
    assert "%smx rerun" in ipython("%smx")
    assert "--keep-alive DURATION" in ipython("%%train --help\npass")


@pytest.mark.processes
def test_a_cell_of_a_notebook_is_a_job_without_any_loading(controller: ScriptedController) -> None:
    controller.on_submit = lambda fake, job: fake.end(job.id)
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%%train --name digits\npass")])
    NotebookClient(nb, timeout=60, kernel_name="python3").execute()
    assert nb.cells[0].outputs[0].data[MIME]["summary"]["status"] == "Completed"


@pytest.mark.processes
def test_loading_keeps_the_jobs_that_were_started_before(controller: ScriptedController) -> None:
    nb = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("import jupyter_smx as smx\njob = smx.train('pass')"),
            nbformat.v4.new_code_cell("%smx stop job"),
            nbformat.v4.new_code_cell("print(job.wait(30).status)"),
        ]
    )
    NotebookClient(nb, timeout=60, kernel_name="python3").execute()
    assert nb.cells[2].outputs[0].text == "Stopped\n"
    assert len(controller.jobs) == 1

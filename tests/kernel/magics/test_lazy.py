"""The magics without ``%load_ext``, by the fragment of IPython's configuration that the package installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.kernel.magics.lazy_loading import add_body, logical_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_client.blocking.client import BlockingKernelClient
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
    said = ipython("import sys", "print([name for name in sys.modules if name.startswith('jupyter_smx.')])")
    assert said.strip() == str([f"jupyter_smx.kernel{name}" for name in ("", ".magics", ".magics.lazy_loading")])


@pytest.fixture
def fresh(data_folder: Path) -> Iterator[BlockingKernelClient]:
    """Give the client of a kernel in which nothing ran yet."""
    manager, client = start_new_kernel(kernel_name="python3", env=dict(os.environ))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    assert not data_folder.exists(), "no Tab starts a controller"


def tab(client: BlockingKernelClient, code: str) -> list[str]:
    matches: list[str] = client.complete(code, reply=True, timeout=60)["content"]["matches"]
    return matches


@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("%smx st", ["stop"]),
        ("%%train --keep", ["--keep-alive"]),
        ("%%train --name x \\\n  --keep", ["--keep-alive"]),
        ("%%train --distribution t", ["torchrun"]),
        ("%%train -t ml.t3.medi", ["ml.t3.medium"]),
    ],
)
def test_the_first_tab_of_a_kernel_completes(fresh: BlockingKernelClient, code: str, expected: list[str]) -> None:
    assert tab(fresh, code) == expected
    assert tab(fresh, code) == expected, "once they are loaded, too"


@pytest.mark.processes
def test_the_first_tab_completes_the_names_of_the_magics_and_nothing_of_ours_elsewhere(
    fresh: BlockingKernelClient,
) -> None:
    assert "%%train" in tab(fresh, "%%tra")
    assert "%smx" in tab(fresh, "%sm")
    assert "import" in tab(fresh, "impor")


@pytest.mark.processes
@pytest.mark.parametrize("question", ["%train?", "%%train?", "%smx?"])
def test_help_is_plain_text_before_and_after_loading(fresh: BlockingKernelClient, question: str) -> None:
    pages = []
    for _ in range(2):
        reply = fresh.execute(question, reply=True, timeout=60)["content"]
        (page,) = reply["payload"]
        pages.append(page["data"]["text/plain"].partition("File:")[0])
    assert pages[0] == pages[1]
    assert ("--keep-alive DURATION" if "train" in question else "%smx rerun") in pages[0]
    assert "::" not in pages[0]
    assert "``" not in pages[0]


@pytest.mark.processes
def test_a_cell_without_code_is_told_so_before_and_after_loading(fresh: BlockingKernelClient) -> None:
    for cell in ("%%train", "%%process --name x\n"):
        # Else a kernel may abort the second cell for the error of the first one.
        reply = fresh.execute(cell, reply=True, timeout=60, stop_on_error=False)["content"]
        assert "The cell is empty." in reply["evalue"]
        assert "Did you mean" not in reply["evalue"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["%%train --name x\n"], ["%%train --name x\n", "\n"]),
        (["%%train\n", "pass\n"], ["%%train\n", "pass\n"]),
        (["%%time\n"], ["%%time\n"]),
        (["%%train?\n"], ["%%train?\n"]),
        (["%train\n"], ["%train\n"]),
        ([], []),
    ],
)
def test_only_a_cell_of_ours_without_code_gets_a_body(lines: list[str], expected: list[str]) -> None:
    assert add_body(lines) == expected


def test_a_terminal_goes_on_asking_for_the_code_of_a_cell() -> None:
    manager = TransformerManager()
    manager.cleanup_transforms.append(add_body)
    assert manager.check_complete("%%train")[0] == "incomplete"


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("%%train -e ssh \\\n --na", 1, "%%train -e ssh   --na"),
        ("\n%smx jobs", 1, "%smx jobs"),
        ("%%train -e ssh\n --na", 1, " --na"),
        ("x = 1 \\\n + 1", 1, " + 1"),
        ("%%train \\\npass\npas", 2, "pas"),
    ],
)
def test_a_line_is_joined_with_those_that_it_continues(text: str, row: int, expected: str) -> None:
    assert logical_line(text, row) == expected


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

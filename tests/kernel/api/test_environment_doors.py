"""``--python`` and ``--requirements`` through every front door: the magic, the functions, the decorator, the shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import cloudpickle
import pytest

import jupyter_smx as smx
from jupyter_smx.cli.main import main
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.text.pages import jobs_page
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the working directory: requirements.txt, a link to this Python, and one that says that it is 3.9."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMX_WAIT", "0")
    (tmp_path / "requirements.txt").write_text("numpy==2.1\n")
    (tmp_path / "same").symlink_to(sys.executable)
    (tmp_path / "older").write_text("#!/bin/sh\necho 3 9\n")
    (tmp_path / "older").chmod(0o755)
    return tmp_path


@pytest.fixture
def without_a_notebook(controller: ScriptedController) -> Iterator[None]:
    assert controller.jobs == {}
    session.close_session()
    session.open_session(None)
    yield
    session.close_session()


def only(controller: ScriptedController) -> JobSpec:
    (job,) = controller.jobs.values()
    return job.spec


@pytest.mark.processes
def test_the_magic(shell: InteractiveShell, controller: ScriptedController, here: Path) -> None:
    shell.run_cell_magic("train", "--python older --requirements requirements.txt", "pass")
    spec = only(controller)
    assert (spec.python, spec.python_version) == (str(here / "older"), "3.9")
    assert (spec.requirements, spec.requirements_only) == (("numpy==2.1",), False)


@pytest.mark.processes
def test_the_magic_with_requirements_alone(shell: InteractiveShell, controller: ScriptedController, here: Path) -> None:
    shell.run_cell_magic("process", "--python uv:numpy,pandas==2.2", "pass")
    spec = only(controller)
    assert (spec.requirements, spec.requirements_only) == (("numpy", "pandas==2.2"), True)
    assert spec.python == sys.executable
    assert here.exists()


@pytest.mark.processes
@pytest.mark.usefixtures("without_a_notebook")
def test_the_function(controller: ScriptedController, here: Path) -> None:
    smx.train("pass", python=here / "same", requirements=["scipy"])
    spec = only(controller)
    assert (spec.python, spec.requirements) == (str(here / "same"), ("scipy",))


@pytest.mark.processes
@pytest.mark.usefixtures("without_a_notebook")
def test_the_function_with_a_file(controller: ScriptedController, here: Path) -> None:
    smx.process("pass", requirements=here / "requirements.txt")
    assert only(controller).requirements == ("numpy==2.1",)


@pytest.mark.usefixtures("without_a_notebook", "here")
def test_the_decorator_takes_along_what_carries_the_function(controller: ScriptedController) -> None:
    smx.remote(python="uv:numpy", name="far")(lambda: 1).submit()
    assert only(controller).requirements == ("numpy", f"cloudpickle=={cloudpickle.__version__}")


@pytest.mark.processes
@pytest.mark.usefixtures("without_a_notebook")
def test_no_code_is_sent_to_another_version(controller: ScriptedController, here: Path, data_folder: Path) -> None:
    (here / "code").mkdir()
    (here / "code" / "mine.py").write_text("N = 1\n")
    with pytest.raises(ValidationError, match=r"this kernel runs Python 3\.\d+ and the job would run 3\.9"):
        smx.train("pass", python="older", send={"a": 1, "f": lambda: 1}, source_dir="code")
    with pytest.raises(ValidationError, match=r"the job would run 3\.9"):
        smx.remote(python="older")(lambda: 1).submit()
    with pytest.raises(ValidationError, match=r"the job would run 3\.9"):
        smx.map(lambda number: number, [1, 2], python="older", source_dir="code")
    assert controller.jobs == {}
    assert [*(data_folder / "payloads").glob("*")] == [], "nothing was packed for it"
    with pytest.raises(ValidationError, match=r"the job would run 3\.9, which cannot run the function <lambda>"):
        smx.map(len, [[lambda: 1]], python="older")
    assert controller.jobs == {}
    smx.train("pass", python="older", send={"a": {"lr": [0.1, (1, b"x")]}})
    spec = only(controller)
    assert (spec.python_version, spec.send is not None and spec.send.code) == ("3.9", ())


@pytest.mark.processes
@pytest.mark.usefixtures("without_a_notebook")
def test_the_shell(controller: ScriptedController, here: Path) -> None:
    (here / "train.py").write_text("pass\n")
    assert main(["run", "train.py", "--python", "same", "--requirements", "requirements.txt", "--detach"]) == 0
    spec = only(controller)
    assert (spec.python, spec.requirements) == (str(here / "same"), ("numpy==2.1",))


def test_a_list_says_what_a_build_is_at_and_nothing_of_warm_or_cold() -> None:
    message = "Building the environment: Collecting torch."
    pending = SecondaryStatus.PENDING
    building = Job(
        id="a" * 12,
        name="train-aaaaaa",
        spec=JobSpec(kind="train", source="pass", requirements=("torch",)),
        why=Why(start="none", sentence=message),
        transitions=(Transition(status=pending, start_time=0.0, status_message=message),),
    )
    row = jobs_page([summary_of(building)], 5.0)[0].splitlines()[1]
    assert message in row
    assert "none" not in row


def test_a_wrong_word_is_refused_in_the_cell_and_nothing_is_created(
    shell: InteractiveShell, controller: ScriptedController, here: Path
) -> None:
    for line in ("--python nowhere", "--requirements requirement.txt", "--python uv:"):
        with pytest.raises(ValidationError):
            shell.run_cell_magic("train", line, "pass")
    assert controller.jobs == {}
    assert here.exists()

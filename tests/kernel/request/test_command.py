"""``--command``: from a line, from Python and from a shell to the request, and on to a program for SageMaker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from exported_jobs import TYPE, job, run
from msgspec.structs import replace

import jupyter_smx as smx
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.sagemaker.describe import LocalContext, description
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

R_CODE = "print(commandArgs())\n"


@pytest.fixture(autouse=True)
def without_waiting(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it removes the variable
    """Let cells come back at once, as with a front end."""
    monkeypatch.setenv("SMX_WAIT", "0")


@pytest.fixture
def here(controller: ScriptedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:  # noqa: ARG001 - it must be there first
    """Give a folder with a script of R and one of Python, and a session outside a notebook."""
    (tmp_path / "fit.R").write_text(R_CODE)
    (tmp_path / "fit.py").write_text("import numpy\n")
    monkeypatch.chdir(tmp_path)
    session.close_session()
    session.open_session(None)
    yield tmp_path
    session.close_session()


@pytest.mark.usefixtures("here")
def test_command_of_a_processor_runs_a_script_of_any_kind(controller: ScriptedController) -> None:
    job = smx.process(entry_point="fit.R", command=["Rscript"], arguments=["a"])
    spec = controller.jobs[job.id].spec
    assert (spec.command, spec.entry_point, spec.source) == (("Rscript",), "fit.R", R_CODE)
    assert spec.is_program()
    job = smx.process(Path("fit.R"), command="Rscript --vanilla")
    spec = controller.jobs[job.id].spec
    assert (spec.command, spec.entry_point) == (("Rscript", "--vanilla"), "fit.R")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", [["python3"], ["python"], "python3"])
def test_plain_python_is_what_runs_a_script_anyway(controller: ScriptedController, command: Any) -> None:
    job = smx.process(entry_point="fit.py", command=command)
    spec = controller.jobs[job.id].spec
    assert (spec.command, spec.imports) == ((), ("numpy",))
    job = smx.process(entry_point="fit.py", command=["python3", "-u"])
    spec = controller.jobs[job.id].spec
    assert (spec.command, spec.imports) == (("python3", "-u"), ()), "no warm host runs it"


def test_script_that_a_command_runs_is_not_parsed(controller: ScriptedController, here: Path) -> None:
    (here / "old.py").write_text("print 'Python 2'\n")
    job = smx.train(entry_point="old.py", command=["python2.7"])
    assert controller.jobs[job.id].spec.source == "print 'Python 2'\n"


@pytest.mark.usefixtures("here")
def test_command_alone_is_the_whole_command_of_a_job(controller: ScriptedController) -> None:
    job = smx.train(container_entry_point=["/opt/train", "a b"], image="train:1", engine="docker")
    spec = controller.jobs[job.id].spec
    assert (spec.command, spec.entry_point, spec.source) == (("/opt/train", "a b"), "", "/opt/train 'a b'\n")


@pytest.mark.usefixtures("here")
def test_line_has_a_command_as_text(shell: InteractiveShell, controller: ScriptedController) -> None:
    assert shell.run_cell("%process --entry-point fit.R --command 'Rscript --vanilla'").success
    assert shell.run_cell("%train --command \"python -m 'my package'\"").success
    first, second = (record.spec for record in controller.jobs.values())
    assert (first.command, first.entry_point) == (("Rscript", "--vanilla"), "fit.R")
    assert (second.command, second.entry_point) == (("python", "-m", "my package"), "")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"code": "x = 1", "command": ["Rscript"]}, r"command=.*cannot be combined with code\."),
        ({"entry_point": "fit.r", "command": ["Rscript"]}, r"does not exist\."),
        ({"command": "sh 'a"}, r"has a quote that is never closed\."),
        ({"command": [3]}, r"command=\[3\] has the wrong type\."),
    ],
)
def test_command_that_cannot_run_is_refused(
    controller: ScriptedController, keywords: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        smx.train(**keywords)
    assert controller.jobs == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"distribution": Distribution(runner="torchrun")}, r"--distribution: Rscript is not a Python script\."),
        ({"receive": ("model",)}, r"--command: Rscript cannot send or receive variables\."),
        ({"command": ("",)}, r"--command: there is an empty word\."),
        ({"command": ("a" * 257,)}, r"--command: there is a word that is too long\."),
        ({"command": ("a",) * 101}, r"--command: there is 101 words\."),
    ],
)
def test_request_with_a_command_is_checked(fields: dict[str, Any], said: str) -> None:
    spec = JobSpec(kind="train", source="", base_name="fit", command=("Rscript",))
    checks.check(spec, Limits(), {"local"})
    with pytest.raises(ValidationError, match=said):
        checks.check(replace(spec, **fields), Limits(), {"local"})


def test_description_has_the_entry_point_of_the_container(tmp_path: Path) -> None:
    place = LocalContext("us-west-2", tmp_path)
    fields: dict[str, Any] = {"kind": "process", "entry_point": "fit.R", "command": ("Rscript",)}
    found = description(job(**fields, arguments=("a",)), place)["AppSpecification"]
    assert found["ContainerEntrypoint"] == ["Rscript", "/opt/ml/processing/input/code/fit.R"]
    assert found["ContainerArguments"] == ["a"]
    alone = description(job(command=("train", "now"), hyperparameters={"a": "1"}), place)
    assert alone["AlgorithmSpecification"]["ContainerEntrypoint"] == ["train", "now"]


def test_export_of_a_processing_job_passes_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields: dict[str, Any] = {"kind": "process", "source": R_CODE, "entry_point": "fit.R", "instance_groups": (TYPE,)}
    export(job(**fields, command=("Rscript", "--vanilla"), arguments=("a",)), tmp_path / "out")
    assert (tmp_path / "out" / "code" / "fit.R").read_text() == R_CODE
    recorder = run(tmp_path / "out", monkeypatch)
    assert recorder.of("ScriptProcessor")["command"] == ["Rscript", "--vanilla"]
    assert recorder.of("ScriptProcessor.run")["arguments"] == ["a"]
    assert "cd code && Rscript --vanilla fit.R a" in (tmp_path / "out" / "README.md").read_text()


def test_export_of_a_training_job_puts_the_command_into_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {"source": R_CODE, "entry_point": "fit.R", "command": ("Rscript",)}
    export(job(**fields, instance_groups=(TYPE,), hyperparameters={"n": "1"}), tmp_path / "out")
    code = tmp_path / "out" / "code"
    assert (code / "command.sh").read_text() == '#!/bin/sh\nexec Rscript fit.R "$@"\n'
    assert (code / "fit.R").read_text() == R_CODE
    assert run(tmp_path / "out", monkeypatch).of("Estimator")["entry_point"] == "command.sh"

    export(job(command=("train", "a b"), source="x", instance_groups=(TYPE,)), tmp_path / "alone")
    assert [path.name for path in (tmp_path / "alone" / "code").iterdir()] == ["command.sh"]
    assert (tmp_path / "alone" / "code" / "command.sh").read_text() == "#!/bin/sh\nexec train 'a b'\n"


def test_description_and_export_have_no_password_of_a_command(tmp_path: Path) -> None:
    url = "postgres://me:hunter2@host/db"
    place = LocalContext("us-west-2", tmp_path)
    alone = job(command=("app", url), source=f"app {url}\n", instance_groups=(TYPE,))
    assert description(alone, place)["AlgorithmSpecification"]["ContainerEntrypoint"][1] == "postgres://me:…@host/db"
    with_script = {"source": R_CODE, "entry_point": "fit.R", "command": ("Rscript", url), "instance_groups": (TYPE,)}
    processing = job(kind="process", **with_script)
    assert "hunter2" not in str(description(processing, place))
    for number, one in enumerate((alone, job(**with_script), processing)):
        export(one, tmp_path / str(number))
        for path in (tmp_path / str(number)).rglob("*"):
            assert path.is_dir() or "hunter2" not in path.read_text(), path

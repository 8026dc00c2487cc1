"""``--job-name`` and ``{job_name}``, from a line and from Python to the request, and what is shown of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from exported_jobs import SCORE, array, job
from msgspec.structs import replace

import jupyter_smx as smx
from jupyter_smx.kernel.sagemaker.describe import LocalContext, description
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.kernel.sagemaker.export_array import export_array
from jupyter_smx.kernel.text.output_places import output_places
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Artifact, Output

if TYPE_CHECKING:
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

PLACE = "s3://bucket/{job_name}"


@pytest.fixture(autouse=True)
def without_waiting(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it removes the variable
    """Let cells come back at once, as with a front end."""
    monkeypatch.setenv("SMX_WAIT", "0")


def test_line_job_name_in_braces_is_that_of_the_job(shell: InteractiveShell, controller: ScriptedController) -> None:
    options = f"--output model={PLACE}/out --checkpoint {PLACE}/kept --env RUN={{job_name}}"
    assert shell.run_cell(f"%%train --hp model_dir={PLACE}/model {options}\npass").success
    (record,) = controller.jobs.values()
    spec = record.spec
    assert spec.hyperparameters == {"model_dir": f"{PLACE}/model"}
    assert (spec.outputs[0].destination, spec.checkpoint) == (f"{PLACE}/out", f"{PLACE}/kept")
    assert spec.environment == {"RUN": "{job_name}"}


def test_line_variable_of_the_notebook_comes_first_and_quotes_keep_the_braces(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    shell.user_ns["job_name"] = "mine"
    assert shell.run_cell("%%train --hp a={job_name} --hp 'b={job_name}'\npass").success
    (record,) = controller.jobs.values()
    assert record.spec.hyperparameters == {"a": "mine", "b": "{job_name}"}


def test_exact_name_is_sent_and_reruns_are_called_like_it(
    shell: InteractiveShell, controller: ScriptedController
) -> None:
    assert shell.run_cell("%%train --job-name Fit-1 --as job\npass").success
    assert shell.user_ns["job"].name == "Fit-1"
    controller.end(shell.user_ns["job"].id)
    assert shell.run_cell("%smx rerun Fit-1").success
    _, again = controller.jobs.values()
    assert (again.spec.job_name, again.spec.base_name) == ("", "Fit-1")
    assert again.name.startswith("Fit-1-")


@pytest.mark.usefixtures("shell")
def test_python_takes_the_keyword_of_sagemaker(controller: ScriptedController) -> None:
    found = smx.train("pass", job_name="Fit-2", name="fit")
    assert (found.name, controller.jobs[found.id].spec.base_name) == ("Fit-2", "fit")


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("wrong", ["a_b", "-a", "a" * 64])
def test_wrong_exact_name_is_refused_before_anything_is_sent(controller: ScriptedController, wrong: str) -> None:
    with pytest.raises(ValidationError, match=r"job_name=.* is not a valid job name\."):
        smx.train("pass", job_name=wrong)
    assert controller.jobs == {}


def test_description_and_places_have_the_name(tmp_path: Path) -> None:
    output = Output(name="rows", path="rows", destination=f"{PLACE}/rows")
    model = Artifact(name="outputs/rows/a.csv", path="elsewhere", size=1)
    fields = {"hyperparameters": {"model_dir": f"{PLACE}/model"}, "checkpoint": f"{PLACE}/kept", "outputs": (output,)}
    found = job(**fields)
    said = description(found, LocalContext("us-west-2", tmp_path))
    assert said["HyperParameters"] == {"model_dir": "s3://bucket/digits-aaaaaa/model"}
    assert said["CheckpointConfig"]["S3Uri"] == "s3://bucket/digits-aaaaaa/kept"
    (line,) = output_places(replace(found, artifacts=(model,)))
    assert "s3://bucket/digits-aaaaaa/rows" in line


def test_export_writes_the_name_since_the_sdk_fills_in_nothing(tmp_path: Path) -> None:
    export(job(hyperparameters={"model_dir": f"{PLACE}/model"}), tmp_path / "out")
    written = json.loads((tmp_path / "out" / "hyperparameters.json").read_text())
    assert written == {"model_dir": "s3://bucket/digits-aaaaaa/model"}


def test_export_of_an_array_writes_the_name_of_each_task(tmp_path: Path) -> None:
    tasks = array({"n": [1, 2], "model_dir": f"{PLACE}/model"}, metrics=SCORE)
    export_array(tasks, tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "tasks.json").read_text())
    assert [row["hyperparameters"] for row in rows] == [
        {"model_dir": f"s3://bucket/{row['name']}/model", "n": row["index"] + 1} for row in rows
    ]
    assert json.loads((tmp_path / "out" / "hyperparameters.json").read_text()) == {}

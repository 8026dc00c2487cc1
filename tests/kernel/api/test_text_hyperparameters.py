"""Text hyperparameters of the Python API reach a script as that text, as from SageMaker's framework estimators."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import jupyter_smx as smx
from jupyter_smx.agent.contract.hyperparameters import arguments, format_variable, sdk3_arguments, split
from jupyter_smx.kernel.api import session
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.records.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from IPython.core.interactiveshell import InteractiveShell
    from scripted_controller import ScriptedController

TEXTS = {
    "cfg": json.dumps({"lr": 0.1, "layers": [1, 2]}),
    "flag": "true",
    "id": "007",
    "lr": "1e-5",
    "none": "null",
    "version": "1.10",
}


@pytest.fixture(autouse=True)
def without_waiting(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it removes the variable
    """Let cells come back at once, as with a front end."""
    monkeypatch.setenv("SMX_WAIT", "0")


@pytest.fixture
def plain(controller: ScriptedController) -> Iterator[ScriptedController]:
    """Give a controller for a session outside a notebook."""
    session.close_session()
    session.open_session(None)
    yield controller
    session.close_session()


def words(spec: Any) -> dict[str, str]:
    """Return the arguments of the script by name, as the toolkit in SageMaker's images makes them."""
    found = arguments(split(spec.hyperparameters)[0])
    return {name.removeprefix("--"): value for name, value in zip(found[::2], found[1::2], strict=True)}


def test_train_text_hyperparameters_reach_the_script_unchanged(plain: ScriptedController) -> None:
    job = smx.train("pass", hyperparameters={**TEXTS, "epochs": 3, "layers": [1, 2]})
    spec = plain.jobs[job.id].spec
    assert words(spec) == {**TEXTS, "epochs": "3", "layers": "[1, 2]"}
    assert json.loads(words(spec)["cfg"])["lr"] == 0.1
    own, _ = split(spec.hyperparameters)
    assert {name: format_variable(own[name]) for name in TEXTS} == TEXTS, "SM_HP_…"
    assert spec.hyperparameters["version"] == json.dumps("1.10"), "as SDK 2 sends it"


def test_process_text_hyperparameters_are_words_of_that_text(plain: ScriptedController) -> None:
    job = smx.process("pass", hyperparameters=TEXTS)
    assert words(plain.jobs[job.id].spec) == TEXTS


def test_train_contract_v3_sends_text_as_sdk_3_does(plain: ScriptedController) -> None:
    job = smx.train("pass", hyperparameters={"version": "1.10", "n": 2}, contract="v3")
    spec = plain.jobs[job.id].spec
    assert spec.hyperparameters == {"version": "1.10", "n": "2"}
    assert sdk3_arguments(spec.hyperparameters) == ["--version", "1.1", "--n", "2"], "its drivers read a number"


def test_hp_of_a_line_stays_json_where_it_is_json(shell: InteractiveShell, controller: ScriptedController) -> None:
    shell.user_ns["version"] = "1.10"
    assert shell.run_cell("%%train --hp version={version} --hp flag=true --hp opt=adam\npass").success
    (record,) = controller.jobs.values()
    assert record.spec.hyperparameters == {"version": "1.10", "flag": "true", "opt": "adam"}


def test_sweep_of_texts_keeps_them_and_labels_have_no_needless_quotes(plain: ScriptedController) -> None:
    array = smx.train("pass", hyperparameters={"opt": ["adam", "1.10"], "cfg": "[1, 2]"}, sweep=True)
    specs = [plain.jobs[task.id].spec for task in array]
    assert [words(spec) for spec in specs] == [{"opt": "adam", "cfg": "[1, 2]"}, {"opt": "1.10", "cfg": "[1, 2]"}]
    assert [spec.array.label for spec in specs] == ["opt=adam", 'opt="1.10"']
    assert [row["opt"] for row in array.table()] == ["adam", "1.10"]


def test_rerun_and_export_keep_text(plain: ScriptedController, tmp_path: Path) -> None:
    job = smx.train("pass", hyperparameters=TEXTS)
    plain.end(job.id)
    again = smx.rerun(job)
    assert words(plain.jobs[again.id].spec) == TEXTS
    export(plain.jobs[job.id], tmp_path / "out")
    written = json.loads((tmp_path / "out" / "hyperparameters.json").read_text())
    # An Estimator with a source_dir sends json.dumps of each value.
    assert written == TEXTS


def test_comparison_shows_text_without_quotes(plain: ScriptedController) -> None:
    first, second = (smx.train("pass", hyperparameters={"opt": text}) for text in ("adam", "sgd"))
    found = compare(plain.jobs[first.id], plain.jobs[second.id])
    assert [(each.name, each.before, each.after) for each in found.changes if each.name == "opt"] == [
        ("opt", "adam", "sgd")
    ]

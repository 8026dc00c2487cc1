"""The export of an array as one job for each task: packages, places, names, and how its program continues."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exported_jobs import NAME, SCORE, array, mapped, packed, readme, run
from msgspec.structs import replace
from sagemaker_stand_in import Recorder

from jupyter_smx.kernel.request.call import RECEIVE
from jupyter_smx.kernel.sagemaker.export_array import Tasks, export_array, load_tasks
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.results.provenance import Provenance, SeedNote
from jupyter_smx.model.spec.image import Image


class Records:
    """A controller that has the first task, and the provenance of the others."""

    def __init__(self, tasks: Tasks, *ran: int) -> None:
        self._tasks = tasks
        self._ran = {tasks.array.tasks[place].id: place for place in ran}
        self.asked = 0

    def job(self, ref: str) -> Any:
        self.asked += 1
        if ref not in self._ran:
            return replace(self._tasks.first, id=ref)
        seen = Provenance(code_sha256="", packages={"numpy": f"{self._ran[ref]}.0"}, seeds=SeedNote(sentence=""))
        return replace(self._tasks.first, id=ref, provenance=seen, image=Image(name="train:1", id="1"))


def test_packages_and_image_are_those_of_the_first_task_that_ran(tmp_path: Path) -> None:
    tasks = array(metrics=SCORE)
    # The first never ran; the second ran without a record, as if its host was lost.
    rows = [replace(row, started_at=1e9, ended_at=1e9 + 1) if n else row for n, row in enumerate(tasks.array.tasks)]
    records: Any = Records(tasks, 2, 3)
    found = load_tasks(records, replace(tasks.array, tasks=tuple(rows)))
    assert (found.first.id, records.asked) == (tasks.first.id, 3)
    export_array(found, tmp_path / "out")
    assert (tmp_path / "out" / "requirements.txt").read_text() == "numpy==2.0\n"
    assert json.loads((tmp_path / "out" / "job.json").read_text())["image"].startswith("train:1")
    nobody: Any = Records(tasks)
    assert load_tasks(nobody, replace(tasks.array, tasks=tuple(rows))).first == tasks.first


def test_an_array_without_tasks_is_refused_with_a_rule_and_a_cure() -> None:
    with pytest.raises(ResourceNotFoundError) as refused:
        load_tasks(None, replace(array().array, tasks=()))  # type: ignore[arg-type]  # no record is requested
    assert refused.value.rule
    assert refused.value.cure


def test_tasks_keep_their_index_where_one_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_array(array(left_out=1), tmp_path / "sweep")
    told = json.loads((tmp_path / "sweep" / "tasks.json").read_text())
    assert [(task["index"], task["name"]) for task in told] == [(n, f"{NAME}-{n}") for n in (1, 2, 3)]
    whole = mapped(tmp_path)
    left = replace(whole, array=replace(whole.array, tasks=whole.array.tasks[1:]), sent=whole.sent[1:])
    made = export_array(left, tmp_path / "out")
    assert [name for name in made.files if name.startswith("variables/")] == ["variables/1.pkl"]
    run(tmp_path / "out", monkeypatch)


@pytest.mark.parametrize("place", ["s3://mine/{kept}", "s3://mine/{kept}/"])
def test_each_task_has_its_checkpoints_in_a_place_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    export_array(array(checkpoint=place), tmp_path / "out")
    calls = run(tmp_path / "out", monkeypatch).calls
    kept = [asked["checkpoint_s3_uri"] for name, asked in calls if name == "Estimator"]
    assert kept == [f"s3://mine/{{kept}}/{index}" for index in range(4)]


def test_what_is_refused_there_of_any_task_is_said_once(tmp_path: Path) -> None:
    long = [{"a": "x"}, {"a": "x" * 257}, {"a": "x" * 258}]
    export_array(array({"a": [point["a"] for point in long]}, kind="process", contract="v3"), tmp_path / "out")
    page = readme(tmp_path / "out")
    assert page.count("1 of the script's arguments exceed SageMaker's maximum of 256 characters") == 1
    assert page.count("It ran by the contract of SDK 3") == 1


def test_a_program_that_was_refused_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export_array(array(left_out=1), tmp_path / "out")
    taken = Recorder.take

    def refuse(recorder: Recorder, name: str, *asked: Any) -> dict[str, Any]:
        if name == "Estimator.fit" and len([one for one, _ in recorder.calls if one == name]) == 1:
            raise RuntimeError("ResourceLimitExceeded")
        return taken(recorder, name, *asked)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "take", refuse)
        with pytest.raises(RuntimeError, match="ResourceLimitExceeded"):
            run(tmp_path / "out", patch)
    assert "Task 2 was refused. Go on with: python sagemaker_job.py 2" in capsys.readouterr().out
    calls = run(tmp_path / "out", monkeypatch, "sagemaker_job.py", "2").calls
    rest = [asked["hyperparameters"] for name, asked in calls if name == "Estimator"]
    assert [(one["depth"], one["opt"]) for one in rest] == [(2, "adam"), (2, "sgd")]
    assert "`python sagemaker_job.py INDEX` continues there" in readme(tmp_path / "out")


def code_beside(tasks: Tasks, tmp_path: Path, *names: str) -> Tasks:
    """Return the tasks with a folder of code in which the user has files of such names."""
    (tmp_path / "src").mkdir()
    for name in names:
        (tmp_path / "src" / name).write_text("mine")
    spec = replace(tasks.first.spec, source_dir=packed(tmp_path, helper="1\n"))
    return replace(tasks, first=replace(tasks.first, spec=spec))


@pytest.mark.processes
def test_no_file_of_the_user_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "smx"))
    theirs = ("task.pkl", "variables.pkl", "with_variables.py", "with_variables_.py")
    export_array(code_beside(mapped(tmp_path), tmp_path, *theirs), tmp_path / "out")
    code = tmp_path / "out" / "code"
    calls = run(tmp_path / "out", monkeypatch).calls
    assert {asked["entry_point"] for name, asked in calls if name == "Estimator"} == {"with_variables__.py"}
    assert [(code / name).read_text() for name in theirs] == ["mine"] * 4
    words = [sys.executable, str(code / "with_variables__.py")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "4\n", "the last task's"
    told = readme(tmp_path / "out")
    assert all(f"`code/{name}`" in told for name in ("task_.pkl", "variables_.pkl", "with_variables__.py"))
    assert "python with_variables__.py" in told


@pytest.mark.processes
def test_what_a_function_gives_comes_home_in_the_model(tmp_path: Path) -> None:
    tasks = mapped(tmp_path)
    spec = replace(tasks.first.spec, source="value = function(*arguments)\n", receive=RECEIVE)
    export_array(replace(tasks, first=replace(tasks.first, spec=spec)), tmp_path / "out")
    words = [sys.executable, str(tmp_path / "out" / "code" / "with_variables.py")]
    model = tmp_path / "model"
    model.mkdir()
    subprocess.run(words, check=True, env={**os.environ, "SM_MODEL_DIR": str(model)})
    assert pickle.loads((model / "result.pkl").read_bytes()) == 3  # noqa: S301 - our own
    subprocess.run(words, check=True, env={name: text for name, text in os.environ.items() if name != "SM_MODEL_DIR"})
    assert "is in `result.pkl` of a SageMaker job's `model.tar.gz`" in readme(tmp_path / "out")


@pytest.mark.processes
def test_a_result_that_cannot_be_pickled_fails_no_job_and_one_that_is_not_there_is_not_promised(tmp_path: Path) -> None:
    tasks = mapped(tmp_path)
    spec = replace(tasks.first.spec, source="import threading\nvalue = threading.Lock()\n", receive=RECEIVE)
    tasks = replace(tasks, first=replace(tasks.first, spec=spec))
    export_array(tasks, tmp_path / "out")
    words = [sys.executable, str(tmp_path / "out" / "code" / "with_variables.py")]
    given = {**os.environ, "SM_MODEL_DIR": str(tmp_path)}
    done = subprocess.run(words, check=True, env=given, capture_output=True, text=True)
    assert "What the function gave cannot be pickled: TypeError" in done.stdout
    Path(tasks.sent[1].path).unlink()
    export_array(tasks, tmp_path / "gone")
    assert "result.pkl" not in readme(tmp_path / "gone")


def test_calls_need_what_their_function_was_packed_by(tmp_path: Path) -> None:
    export_array(mapped(tmp_path), tmp_path / "out")
    assert "cloudpickle==" in (tmp_path / "out" / "requirements.txt").read_text()

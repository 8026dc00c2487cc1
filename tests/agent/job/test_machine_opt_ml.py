"""A job without an /opt/ml of its own that makes the machine's: what it writes there is named at its end."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jupyter_smx.agent.job import machine_opt_ml, working_folder
from jupyter_smx.agent.job.job import Job
from jupyter_smx.agent.system.files.host_folder import NO_ENTRIES

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.agent.frames import CompleteSpec

BEGIN = 1_800_000_000.0
TRAIN = cast("CompleteSpec", {"kind": "train"})


def write(path: Path, at: float) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))
    return str(path)


def test_only_what_changed_during_the_job_is_new(tmp_path: Path) -> None:
    for name in ("model/old", "model/changed", "model/gone"):
        write(tmp_path / name, BEGIN)
    before = machine_opt_ml.list_files(str(tmp_path))
    (tmp_path / "model/gone").unlink()
    new = [write(tmp_path / name, BEGIN + 1) for name in ("model/b", "model/changed", "processing/output/c")]
    write(tmp_path / "input/data/x", BEGIN + 1)
    assert machine_opt_ml.new_files(before, machine_opt_ml.list_files(str(tmp_path))) == sorted(new)
    assert machine_opt_ml.new_files(before, before) == []


def test_of_a_large_folder_only_the_first_entries_count(tmp_path: Path) -> None:
    before = machine_opt_ml.list_files(str(tmp_path))
    for number in range(150):
        write(tmp_path / "model" / str(number), BEGIN)
    after = machine_opt_ml.list_files(str(tmp_path))
    assert len(machine_opt_ml.new_files(before, after)) == 100
    more = write(tmp_path / "model" / "more", BEGIN + 1)
    later = {**after, "model": {**after["model"], more: 1}}
    assert machine_opt_ml.new_files(after, later) == [], "what the first list left out may be old"


def test_the_sentence_names_files_and_variables() -> None:
    assert machine_opt_ml.describe(TRAIN, []) == ""
    assert machine_opt_ml.describe(TRAIN, ["/opt/ml/model/a"]) == (
        "/opt/ml/model/a was written to the /opt/ml of the machine while the job ran, and not collected: the host has "
        "no /opt/ml of its own. Write to the folders in the variables SM_MODEL_DIR and SM_OUTPUT_DATA_DIR."
    )
    process = cast("CompleteSpec", {"kind": "process"})
    many = machine_opt_ml.describe(process, [f"/opt/ml/processing/output/{name}" for name in "abcd"])
    assert "/opt/ml/processing/output/c and others were written" in many
    assert many.endswith("Write below the folder in the variable SAGEMAKER_BASE_DIR.")


def test_a_job_without_the_folder_that_others_of_its_host_have_is_told_why() -> None:
    told = machine_opt_ml.describe(TRAIN, [], "a job of another host uses the /opt/ml of the machine")
    assert told.startswith("The job ran without /opt/ml, because a job of another host uses")
    assert "SM_MODEL_DIR" in told


@pytest.mark.parametrize(("lacks_opt_ml", "count"), [(False, 0), (True, 1)])
def test_a_job_names_them_where_its_host_has_no_opt_ml(
    monkeypatch: pytest.MonkeyPatch, *, lacks_opt_ml: bool, count: int
) -> None:
    after = {"model": {"/opt/ml/model/a": 2}}
    monkeypatch.setattr(machine_opt_ml, "list_files", lambda: after)
    monkeypatch.setattr(working_folder, "describe", lambda *_: "")
    job = cast("Any", Job.__new__(Job))
    job.host = SimpleNamespace(
        lacks_opt_ml=lambda: lacks_opt_ml,
        info=None,
        missing_opt_ml=str,
        folder=SimpleNamespace(ml="/ml", trees="/trees", root_entries=NO_ENTRIES),
    )
    job.spec, job.left_behind, job.status, job._machine_files, done = TRAIN, [], 1, {"model": {}}, []
    job._name_leftovers(lambda: done.append(1))
    assert (len(job.left_behind), done) == (count, [1])

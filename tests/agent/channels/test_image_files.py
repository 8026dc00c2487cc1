"""What an image has in ``/opt/ml`` is there for a job, below the job's own files, and the same for the next one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.channels import image_files
from jupyter_smx.agent.contract import script, scriptmode
from jupyter_smx.agent.job import working_folder
from jupyter_smx.agent.paths import HostInfo

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec

FILES = {
    "code/baked.py": "print('baked')\n",
    "code/pkg/__init__.py": "",
    "model/weights.bin": "of the image",
    "input/data/train/a.csv": "1,2\n",
    "checkpoints/step-1": "one",
    "weights/small.json": "{}",
}
LARGE = "weights/large.bin"


@pytest.fixture
def place(tmp_path: Path) -> HostInfo:
    for name, text in FILES.items():
        path = tmp_path / "image" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "image" / "code" / "run").write_text("#!/bin/sh\n")
    (tmp_path / "image" / "code" / "run").chmod(0o755)
    (tmp_path / "image" / LARGE).write_bytes(b"0" * ((1 << 20) + 1))
    (tmp_path / "image" / "latest").symlink_to("weights")
    for name in ("code", "model", "input/data", "checkpoints"):
        (tmp_path / "ml" / name).mkdir(parents=True)
    group = {"instance_group_name": "g", "instance_type": "local", "hosts": ["algo-1"]}
    found = HostInfo("algo-1", ["algo-1"], [group], "g", "local", 1, 0)
    return found._replace(base=str(tmp_path / "ml"), image_files=str(tmp_path / "image"))


def a_spec(**fields: Any) -> CompleteSpec:
    return scriptmode.complete({"source": "", "kind": "train", **fields})


def seen(place: HostInfo) -> set[str]:
    """List what a job sees below its ``/opt/ml``."""
    found = [path for path in Path(place.base).rglob("*") if path.is_symlink() or path.is_file()]
    return {path.relative_to(place.base).as_posix() for path in found}


def test_a_training_job_sees_all_but_what_sagemaker_mounts_for_it(place: HostInfo) -> None:
    image_files.present(a_spec(), place)
    assert seen(place) == {
        "code/baked.py",
        "code/pkg/__init__.py",
        "code/run",
        "checkpoints/step-1",
        "weights/small.json",
        LARGE,
        "latest",
    }
    assert os.access(place.path("code", "run"), os.X_OK)
    assert Path(place.path("latest")).readlink().as_posix() == "weights"


def test_checkpoints_of_the_job_hide_those_of_the_image(place: HostInfo) -> None:
    image_files.present(a_spec(checkpoint="/kept"), place)
    assert "checkpoints/step-1" not in seen(place)


def test_a_processing_job_sees_the_model_and_not_what_lies_at_its_inputs_and_outputs(
    place: HostInfo, tmp_path: Path
) -> None:
    for name in ("processing/input/raw/x", "processing/output/report/y", "processing/z", "weights/kept/v"):
        (tmp_path / "image" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "image" / name).write_text("of the image")
    channel = {"name": "raw", "source": "/raw", "mode": "File", "path": ""}
    output = {"name": "kept", "path": "/opt/ml/weights/kept", "destination": "", "mode": "EndOfJob"}
    image_files.present(a_spec(kind="process", channels=[channel], outputs=[output]), place)
    assert {"model/weights.bin", "processing/z"} <= seen(place)
    assert not seen(place) & {"processing/input/raw/x", "processing/output/report/y", "weights/kept/v"}


def test_files_of_the_job_win_also_where_one_is_in_the_place_of_a_folder(place: HostInfo) -> None:
    mine = [Path(place.path("code", name)) for name in ("baked.py", "pkg")]
    for path in mine:
        path.write_text("mine")
    image_files.present(a_spec(), place)
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    assert "code/run" in seen(place)


def test_the_next_job_finds_the_same_whatever_this_one_did(place: HostInfo, tmp_path: Path) -> None:
    image_files.present(a_spec(), place)
    first = seen(place)
    Path(place.path("code", "baked.py")).write_text("changed")
    assert Path(place.path(LARGE)).readlink() == Path(place.image_files, LARGE), "a large file is not copied"
    Path(place.path("weights", "small.json")).unlink()
    shutil.rmtree(place.base)
    for name in ("code", "model", "input/data", "checkpoints"):
        (tmp_path / "ml" / name).mkdir(parents=True)
    image_files.present(a_spec(), place)
    assert seen(place) == first
    assert (tmp_path / "ml" / "code" / "baked.py").read_text() == FILES["code/baked.py"]


def test_many_files_are_linked_so_that_a_start_stays_short(place: HostInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "_MAX_FILES", 2)
    image_files.present(a_spec(), place)
    copies = [name for name in seen(place) if not Path(place.path(name)).is_symlink()]
    assert len(copies) == 2
    assert len(seen(place)) == 7


def test_files_of_the_image_are_none_that_the_job_left(place: HostInfo) -> None:
    image_files.present(a_spec(), place)
    assert working_folder.describe(a_spec(), place, place.base, "") == ""
    Path(place.path("code", "result.csv")).write_text("1")
    assert "result.csv" in working_folder.describe(a_spec(), place, place.base, "")


@pytest.mark.parametrize(
    ("fields", "program"),
    [({}, "mine.py"), ({"command": ["train"]}, "baked.py"), ({"environment": {"SAGEMAKER_PROGRAM": "x"}}, "baked.py")],
)
def test_the_variable_of_the_image_names_the_script_that_runs(
    fields: dict[str, Any], program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(image_files.PROGRAM, "baked.py")
    monkeypatch.delenv(image_files.SUBMIT_DIRECTORY, raising=False)
    image_files.replace_program(a_spec(**fields), "/opt/ml/code", "mine.py")
    assert os.environ[image_files.PROGRAM] == program
    assert image_files.SUBMIT_DIRECTORY not in os.environ, "the image did not name one"


def test_code_starts_in_the_working_folder_of_the_image_where_the_job_says_so(place: HostInfo) -> None:
    spec, there = a_spec(image_workdir=True, entry_point="train.py"), place._replace(image_workdir="/app")
    assert script.working_folder(spec, there) == "/app"
    assert script.working_folder(spec, place) == "/"
    assert script.argv(spec, there)[0] == place.path("code", "train.py"), "it does not start beside its script"
    assert script.working_folder(a_spec(), there) == place.path("code")

"""Jobs and arrays for tests of exports, and a run of the program that an export writes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from sagemaker_stand_in import Recorder, install

from jupyter_smx.kernel.client.client import ArrayDetail
from jupyter_smx.kernel.request import source_dir
from jupyter_smx.kernel.request.grid import grid_of
from jupyter_smx.kernel.request.payload import pack
from jupyter_smx.kernel.sagemaker.export_array import Tasks
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.redaction import redact_values
from jupyter_smx.model.spec.array import ArrayCounts, ArrayTask, task_id
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SET = {
    'ROLE = ""': 'ROLE = "arn:aws:iam::111122223333:role/Smx"',
    'BUCKET = ""': 'BUCKET = "bucket"',
    'IMAGE_URI = ""': 'IMAGE_URI = "image"',
}


TYPE = InstanceGroup(instance_type="ml.m5.xlarge", instance_count=2)
NAME = "grid-bbbbbb"
SCORE = {"score": "score=(.*)"}
SWEPT = {"depth": [1, 2], "opt": ["adam", "sgd"], "epochs": 3}


CALLS = "print(function(*arguments))\n"


def job(**fields: Any) -> Job:
    spec = {"kind": "train", "source": "\n\nprint('hello')\n", "base_name": "digits"} | fields
    return Job(id="a" * 12, name="digits-aaaaaa", spec=JobSpec(**spec), created_at=1e9, ended_at=1e9 + 5)


def run(folder: Path, patch: pytest.MonkeyPatch, name: str = "sagemaker_job.py", *words: str) -> Recorder:
    """Run the program as its user would, with the three names set."""
    text = (folder / name).read_text()
    for placeholder, value in SET.items():
        assert text.count(f"{placeholder}  #") == 1
        text = text.replace(placeholder, value)
    recorder = install(patch)
    path = str(folder / name)
    patch.setattr(sys, "argv", [path, *words])
    exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})  # noqa: S102 - what it is for
    return recorder


def packed(tmp_path: Path, **files: str) -> Any:
    src = tmp_path / "src"
    for name, text in files.items():
        path = src / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source_dir.pack(str(src), tmp_path / "smx" / "payloads")


def array(swept: dict[str, Any] = SWEPT, *, left_out: int = 0, **fields: Any) -> Tasks:
    """Make an array as the controller does, without its first few tasks."""
    grid = grid_of(swept)
    asked: Any = {"kind": "train", "source": "print(1)\n", "base_name": "grid", "instance_groups": (TYPE,)} | fields
    fixed = {name: str(value) for name, value in grid.fixed.items()}
    jobs = []
    for index, wish in enumerate(grid.tasks):
        size, values = len(grid.tasks), wish.hyperparameters
        task = ArrayTask(id="b" * 12, name=NAME, index=index, size=size, values=redact_values(values), title=grid.title)
        spec = JobSpec(**asked | {"hyperparameters": fixed | values, "array": task})
        jobs.append(Job(id=task_id("b" * 12, index), name=f"{NAME}-{index}", spec=spec, created_at=1e9))
    found = ArrayDetail(
        id="b" * 12,
        name=NAME,
        base_name="grid",
        kind=asked["kind"],
        size=len(jobs),
        title=grid.title,
        created_at=1e9,
        counts=ArrayCounts(pending=len(jobs)),
        tasks=tuple(map(summary_of, jobs[left_out:])),
    )
    return Tasks(array=found, first=jobs[left_out])


def readme(folder: Path) -> str:
    return (folder / "README.md").read_text()


def mapped(tmp_path: Path) -> Tasks:
    """Make an array of calls, each task with variables of its own."""
    tasks = array({"n": [1, 2]}, source=CALLS, shared=pack({"function": abs}, tmp_path / "payloads"))
    rows = tuple(summary_of(job) for job in [tasks.first] * 2)
    own = [ArrayTask(id="b" * 12, name=NAME, index=index, size=2, title="map abs") for index in range(2)]
    sent = tuple(pack({"arguments": (-number,)}, tmp_path / "payloads") for number in (3, 4))
    first = replace(tasks.first, spec=replace(tasks.first.spec, hyperparameters={}, send=sent[0], array=own[0]))
    rows = tuple(replace(row, array=task) for row, task in zip(rows, own, strict=True))
    return Tasks(array=replace(tasks.array, tasks=rows), first=first, sent=sent)

from __future__ import annotations

from typing import Any

import pytest

from jupyter_smx.kernel.text.output_places import output_places
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Artifact, Output
from jupyter_smx.model.spec.job_spec import JobSpec


def job(kind: Any, artifacts: dict[str, str], *outputs: Output) -> Job:
    spec = JobSpec(kind=kind, source="pass", outputs=outputs)
    found = tuple(Artifact(name=name, path=path, size=1024) for name, path in artifacts.items())
    return Job(id="a" * 12, name="fit-aaaaaa", spec=spec, created_at=1e9, artifacts=found)


TO_URL = Output(name="b", path="/opt/ml/processing/output/b", destination="s3://bucket/b")


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (job("train", {}), []),
        (job("train", {"result.pkl": "/d/result.pkl"}), []),
        (
            job("train", {"model.tar.gz": "/d/model.tar.gz", "output.tar.gz": "/d/output.tar.gz"}),
            ["Model: /d/model.tar.gz (1.0 KiB)", "Output data: /d/output.tar.gz (1.0 KiB)"],
        ),
        (
            job("train", {"outputs/model/a/b": "/m/a/b", "outputs/model/c": "/m/c"}),
            ["Model: /m (2 files, 2.0 KiB)"],
        ),
        (
            job("process", {"outputs/model/x": "/m/x", "outputs/b/y z": "s3://bucket/b/y z"}),
            ["Output model: /m (1 file, 1.0 KiB)", "Output b: s3://bucket/b (1 file, 1.0 KiB)"],
        ),
        (
            job("process", {"outputs/b/y": "s3://elsewhere/?y"}, TO_URL),
            ["Output b: s3://bucket/b (1 file, 1.0 KiB)"],
        ),
    ],
    ids=["none", "variables", "archives", "uncompressed", "processing", "destination"],
)
def test_each_place_has_a_line(made: Job, lines: list[str]) -> None:
    assert output_places(made) == lines

"""What SageMaker would not take of a job is said beside its call, and nothing of one that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from service_model import service

from jupyter_smx.kernel.sagemaker import api_limits
from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes
from jupyter_smx.kernel.sagemaker.export import export
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path
SPARK = Distribution(runner="pyspark")


def spec(**fields: Any) -> JobSpec:
    return JobSpec(**({"kind": "train", "source": "pass", "base_name": "digits"} | fields))


def many(count: int) -> dict[str, str]:
    return {f"n{number}": "1" for number in range(count)}


def inputs(count: int, **fields: Any) -> tuple[Channel, ...]:
    return tuple(Channel(name=f"c{number}", source="s3://bucket/x", **fields) for number in range(count))


def outputs(count: int) -> tuple[Output, ...]:
    return tuple(Output(name=f"o{number}", path=f"/opt/ml/processing/output/o{number}") for number in range(count))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"hyperparameters": many(96)}, "96 hyperparameters"),
        ({"environment": many(101)}, "101 environment variables"),
        ({"environment": {"A": "x" * 513}}, "`A` are longer than SageMaker's maximum of 512"),
        ({"kind": "process", "environment": {"A": "x" * 257}}, "longer than SageMaker's maximum of 256"),
        ({"kind": "process", "hyperparameters": many(51)}, "102 arguments"),
        ({"kind": "process", "hyperparameters": {"a": "x" * 257}}, "1 of the script's arguments"),
        ({"contract": "v3"}, "ModelTrainer"),
        ({"spot": True, "keep_alive": 60}, "no warm pools of spot instances"),
        ({"keep_alive": 60, "instance_groups": (InstanceGroup(name="a"), InstanceGroup(name="b"))}, "instance groups"),
        ({"kind": "process", "requirements": ("x==1",), "distribution": SPARK}, "requires x==1"),
        (
            {"kind": "process", "channels": inputs(11)},
            "It has 11 inputs; the maximum of SageMaker's processing jobs is 10",
        ),
        ({"kind": "process", "channels": inputs(10)}, "and its SDK adds 1 for the code"),
        ({"kind": "process", "outputs": outputs(11)}, "It has 11 outputs"),
        ({"kind": "process", "channels": inputs(1, mode="FastFile")}, "The input `c0` was in mode FastFile."),
        ({"kind": "process", "channels": inputs(2, mode="FastFile")}, "The inputs `c0`, `c1` were in mode FastFile."),
        ({"channels": inputs(1, mode="FastFile", data_type="ManifestFile")}, "FastFile by a manifest"),
        ({"kind": "process", "max_run": 10**6}, "SageMaker's maximum is 9 d."),
        ({"max_run": 10**7}, "SageMaker's maximum is 28 d."),
        ({"keep_alive": 10**5}, "SageMaker's maximum is 6 h, which the call requests."),
        ({"kind": "process", "instance_groups": (InstanceGroup(instance_count=101),)}, "It had 101 hosts"),
        ({"kind": "process", "instance_groups": (InstanceGroup(name="a"),)}, "It ran on instance groups."),
        ({"kind": "process", "metrics": {"loss": "(.*)"}, "retries": 2}, "It has retries."),
    ],
)
def test_what_is_too_much_there_is_said(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    assert said in " ".join(api_limit_notes(spec(**fields)))
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=spec(**fields), created_at=1e9), tmp_path / "out")
    assert said in (tmp_path / "out" / "README.md").read_text().partition("## On SageMaker")[2]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"hyperparameters": many(95), "environment": many(100) | {"n1": "x" * 512}},
        {"kind": "process", "hyperparameters": many(50), "environment": {"A": "x" * 256}},
        {"kind": "process", "channels": inputs(9), "outputs": outputs(10), "max_run": 777_600},
        {"channels": inputs(20, mode="FastFile"), "max_run": 28 * 86_400, "keep_alive": 21_600, "retries": 3},
    ],
)
def test_what_is_taken_there_needs_no_word(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert list(api_limit_notes(spec(**fields))) == []
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=spec(**fields), created_at=1e9), tmp_path / "out")
    assert "On SageMaker" not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(("shape", "most"), [("ProcessingInputs", 10), ("ProcessingOutputs", 10)])
def test_maxima_are_those_of_the_api(shape: str, most: int) -> None:
    found = service().shape_for(shape)
    assert found.metadata["max"] == most == api_limits.MAX_PROCESSING_CHANNELS
    assert service().shape_for("ProcessingInstanceCount").metadata["max"] == api_limits.MAX_PROCESSING_INSTANCES
    assert "FastFile" not in service().shape_for("ProcessingS3InputMode").enum


def test_the_words_are_those_of_the_jobs_own_contract(tmp_path: Path) -> None:
    wish = spec(contract="v3", hyperparameters={"b": "true", "a": "1"})
    export(Job(id="a" * 12, name="digits-aaaaaa", spec=wish, created_at=1e9), tmp_path / "out")
    assert "python train.py --b true --a 1" in (tmp_path / "out" / "README.md").read_text()

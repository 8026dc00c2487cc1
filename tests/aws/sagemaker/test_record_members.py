"""Descriptions of jobs without a stored request: those of a notebook, and reruns of jobs that the front created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from calls import check, model
from msgspec.structs import replace
from test_describe_members import describe, job, plain_request

from jupyter_smx.aws.controller_client import BilledJob
from jupyter_smx.aws.sagemaker.describe import describe_training
from jupyter_smx.aws.sagemaker.record_members import RecordPlaces
from jupyter_smx.aws.sagemaker.request_store import StoredRequest
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job


def own(**fields: Any) -> Job:
    """Return a completed training job of a notebook."""
    found = job("train")
    return replace(found, spec=replace(found.spec, **{"instance_groups": (InstanceGroup(),)} | fields))


def to(destination: str) -> tuple[Output, ...]:
    return (Output(name="model", path="/opt/ml/model", destination=destination),)


def names(members: dict[str, Any], prefix: str = "") -> set[str]:
    """Return the paths of all members."""
    found = set()
    for name, value in members.items():
        found |= {prefix + name} | (names(value, f"{prefix}{name}.") if isinstance(value, dict) else set())
    return found


def test_a_job_of_a_notebook_has_each_member_of_an_estimators_job() -> None:
    found = describe(own(), {})
    assert names(describe(job("train"), plain_request())) - names(found) == set()
    check(found, model().operation_model("DescribeTrainingJob").output_shape)
    assert found["ResourceConfig"]["InstanceType"] in model().shape_for("TrainingInstanceType").enum
    groups = (InstanceGroup(name="a"), InstanceGroup(name="b", instance_type="ml.c5.xlarge"))
    hosts = describe(own(instance_groups=groups), {})["ResourceConfig"]
    assert [each["InstanceType"] for each in hosts["InstanceGroups"]] == ["ml.m5.xlarge", "ml.c5.xlarge"]
    assert hosts["VolumeSizeInGB"] == 30


def test_what_the_record_has_stays() -> None:
    role = "arn:aws:iam::111122223333:role/Own"
    group = InstanceGroup(instance_type="ml.c5.large")
    found = describe(own(role=role, image="train:1", instance_groups=(group,)), {})
    assert (found["RoleArn"], found["AlgorithmSpecification"]["TrainingImage"]) == (role, "train:1")
    assert found["ResourceConfig"]["InstanceType"] == "ml.c5.large"


def test_hyperparameters_of_a_script_are_those_of_an_estimator() -> None:
    """A framework's ``attach`` reads each one as JSON, and the code from three of them."""
    found = describe(own(hyperparameters={"n": "10", "text": "abc", "word": '"x"'}, entry_point="fit.py"), {})
    values = {name: json.loads(value) for name, value in found["HyperParameters"].items()}
    assert {name: values[name] for name in ("n", "text", "word")} == {"n": 10, "text": "abc", "word": "x"}
    assert values["sagemaker_program"] == "fit.py"
    assert values["sagemaker_submit_directory"] == f"file:///jobs/{'f' * 32}/cell.py"
    command = describe(own(command=("train",), hyperparameters={"text": "abc"}), {})
    assert command["HyperParameters"] == {"text": "abc"}


@pytest.mark.parametrize(
    ("fields", "uri", "output"),
    [
        ({}, f"file:///jobs/{'f' * 32}/artifacts/model.tar.gz", "s3://sagemaker-us-east-1-000000000000/"),
        ({"outputs": to("/s3/b/out/{job_name}/output")}, "s3://b/out/one/output/model.tar.gz", "s3://b/out"),
        (
            {"outputs": to("/s3/b/{job_name}/output/model"), "disable_output_compression": True},
            "s3://b/one/output/model/",
            "s3://b",
        ),
        ({"outputs": to("s3://real/x/best.tar.gz")}, "s3://real/x/best.tar.gz", "s3://real/x"),
    ],
)
def test_the_model_is_where_its_job_has_put_it(fields: dict[str, Any], uri: str, output: str) -> None:
    found = describe(own(**fields), {})
    assert found["ModelArtifacts"]["S3ModelArtifacts"] == uri
    assert found["OutputDataConfig"]["S3OutputPath"] == output


def test_files_in_buckets_of_this_machine_have_their_uris() -> None:
    channels = (Channel(name="a", source="/s3/b/data"), Channel(name="b", source="/s3x/data"))
    found = describe(own(channels=channels, checkpoint="/s3/b/cp", environment={"PLACE": "file:///s3/b"}), {})
    sources = [each["DataSource"]["S3DataSource"]["S3Uri"] for each in found["InputDataConfig"]]
    assert sources == ["s3://b/data", "file:///s3x/data"]
    assert found["CheckpointConfig"]["S3Uri"] == "s3://b/cp"
    assert found["Environment"] == {"PLACE": "file:///s3/b"}
    output = Output(name="out", path="/opt/ml/processing/out", destination="/s3/b/{job_name}/out")
    made = job("process")
    (row,) = describe(replace(made, spec=replace(made.spec, outputs=(output,))), {})["ProcessingOutputConfig"][
        "Outputs"
    ]
    assert row["S3Output"]["S3Uri"] == "s3://b/one/out"


def test_with_real_buckets_there_is_no_default_one() -> None:
    found = describe_training(BilledJob(own(), None), StoredRequest(), RecordPlaces("eu-west-1", Path("/jobs")))
    assert found["OutputDataConfig"]["S3OutputPath"] == f"file:///jobs/{'f' * 32}/artifacts"

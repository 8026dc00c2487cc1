"""Describe gives each member of SageMaker's model that a job has here; the others have a reason in this file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from calls import BUCKET, model, training_request
from msgspec.structs import replace

from jupyter_smx.aws.controller_client import BilledJob
from jupyter_smx.aws.sagemaker.describe import describe_processing, describe_training
from jupyter_smx.aws.sagemaker.lists.job_lists import ONLY_DESCRIBED
from jupyter_smx.aws.sagemaker.record_members import RecordPlaces
from jupyter_smx.aws.sagemaker.request_store import StoredRequest
from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.results.progress import MetricValue
from jupyter_smx.model.results.reports import Bill
from jupyter_smx.model.spec.channel import Artifact
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["train", "process"]

HERE = RecordPlaces("us-east-1", Path("/jobs"), Path("/s3"))
BILL = Bill(price_per_hour=None, billable_seconds=2.0, retained_seconds=0.0, cost=None, training_seconds=2.0)
NO_SUCH_JOB = "Such jobs do not run here, so none of them has created the job."
NO_RULES = "Rules of the debugger do not run here; the notes of the job say so."
SERVERLESS = "Serverless jobs, MLflow of SageMaker and its registry of models are not here; the notes say so."
LEFT_OUT: dict[str, dict[str, str]] = {
    "DescribeTrainingJob": {
        **dict.fromkeys(("AutoMLJobArn", "LabelingJobArn", "TuningJobArn"), NO_SUCH_JOB),
        **dict.fromkeys(("DebugRuleEvaluationStatuses", "ProfilerRuleEvaluationStatuses"), NO_RULES),
        **dict.fromkeys(("BillableTokenCount", "MlflowDetails", "OutputModelPackageArn", "ProgressInfo"), SERVERLESS),
    },
    "DescribeProcessingJob": dict.fromkeys(("AutoMLJobArn", "MonitoringScheduleArn", "TrainingJobArn"), NO_SUCH_JOB),
}
"""Members that no answer here has, with the reason; those of newer models are among them."""
PLAIN_TRAINING = {
    *("TrainingJobName", "TrainingJobArn", "ModelArtifacts", "TrainingJobStatus", "SecondaryStatus"),
    *("HyperParameters", "AlgorithmSpecification", "RoleArn", "OutputDataConfig", "ResourceConfig"),
    *("StoppingCondition", "CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime"),
    *("SecondaryStatusTransitions", "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"),
    *("EnableManagedSpotTraining", "TrainingTimeInSeconds", "BillableTimeInSeconds", "ProfilingStatus"),
}
"""What SageMaker's own answer has for a completed job without channels.

That also has an empty InputDataConfig, which the service's own model forbids.
"""
SENT_BY_THE_SDK = ("DebugHookConfig", "ProfilerConfig")


def job(kind: Kind, **fields: Any) -> Job:
    """Return the record of a job that ran for two seconds."""
    group = InstanceGroup(name="a", instance_type="local")
    spec = JobSpec(kind=kind, source="", base_name="x", instance_groups=(group,), metrics={"accuracy": "(.*)"})
    rows = (Transition(status=SecondaryStatus.COMPLETED, start_time=3.0, end_time=3.0, status_message="Done"),)
    times = {"created_at": 1.0, "started_at": 1.5, "ended_at": 3.0, "modified_at": 3.0, "transitions": rows}
    return Job(id="f" * 32, name="one", spec=spec, **{"state": SecondaryStatus.COMPLETED} | times | fields)


def describe(record: Job, request: dict[str, Any]) -> dict[str, Any]:
    answer = describe_training if record.spec.kind == "train" else describe_processing
    return answer(BilledJob(record, BILL), StoredRequest(request=request), HERE)


def plain_request() -> dict[str, Any]:
    request = training_request("one", "s3://bucket/code.tar.gz")
    return {name: value for name, value in request.items() if name not in SENT_BY_THE_SDK}


def echo_request(kind: Kind) -> dict[str, Any]:
    """Return a request with each member of the model; those that describe nothing of the job are empty."""
    if kind == "train":
        operation, own = "CreateTrainingJob", plain_request()
    else:
        operation = "CreateProcessingJob"
        own = {"ProcessingResources": {"ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large"}}}
    return {name: {} for name in model().operation_model(operation).input_shape.members} | own


def members(operation: str) -> set[str]:
    return set(model().operation_model(operation).output_shape.members)


@pytest.mark.parametrize(
    ("kind", "operation"), [("train", "DescribeTrainingJob"), ("process", "DescribeProcessingJob")]
)
def test_each_member_of_the_model_is_given_or_left_out_for_a_reason(kind: Kind, operation: str) -> None:
    pool = WarmPool(status=WarmPoolStatus.AVAILABLE)
    value = MetricValue(name="accuracy", value=0.5, at=2.0)
    completed = job(kind, warm_pool=pool, metrics=(value,), exit_message="ready")
    kept = replace(completed, spec=replace(completed.spec, keep_alive=60))
    failed = job(kind, state=SecondaryStatus.FAILED, failure_reason="AlgorithmError: ExitCode 1")
    given = set().union(*(describe(record, echo_request(kind)) for record in (kept, failed)))
    left_out = set(LEFT_OUT[operation])
    assert members(operation) - given - left_out == set(), "a member of a newer model needs a value or a reason"
    assert given - members(operation) == set()
    assert given & left_out == set()


def test_a_result_of_search_has_no_member_that_only_describe_has() -> None:
    given = set(describe(job("train"), echo_request("train"))) - ONLY_DESCRIBED
    assert given - set(model().shape_for("TrainingJob").members) == set()


def test_a_plain_training_job_has_the_members_that_sagemaker_gives() -> None:
    assert set(describe(job("train"), plain_request())) == PLAIN_TRAINING


MODEL = Artifact(name="model.tar.gz", path="/s3/b/one/output/model.tar.gz", size=1)
MODEL_FILE = Artifact(name="outputs/model/a/weights", path="/s3/b/one/output/model/a/weights", size=1)
OTHER = Artifact(name="output.tar.gz", path="/s3/b/one/output/output.tar.gz", size=1)


@pytest.mark.parametrize(
    ("state", "artifacts", "has_model"),
    [
        (SecondaryStatus.STOPPED, (OTHER, MODEL), True),
        (SecondaryStatus.STOPPED, (MODEL_FILE,), True),
        (SecondaryStatus.MAX_RUNTIME_EXCEEDED, (MODEL,), True),
        (SecondaryStatus.STOPPED, (OTHER,), False),
        (SecondaryStatus.FAILED, (MODEL,), False),
        (SecondaryStatus.TRAINING, (), False),
        (SecondaryStatus.COMPLETED, (), True),
    ],
)
def test_a_stopped_job_has_the_model_that_it_wrote(
    state: SecondaryStatus, artifacts: tuple[Artifact, ...], *, has_model: bool
) -> None:
    record = job("train", state=state, artifacts=artifacts)
    for request in (plain_request(), {}):
        assert ("ModelArtifacts" in describe(record, request)) == has_model
    if has_model:
        uri = f"s3://{BUCKET}/one/output/model.tar.gz"
        assert describe(record, plain_request())["ModelArtifacts"] == {"S3ModelArtifacts": uri}


@pytest.mark.parametrize(
    ("profiler", "status"),
    [(None, "Disabled"), ({"DisableProfiler": True}, "Disabled"), ({"S3OutputPath": "s3://b/"}, "Enabled")],
)
def test_the_profiling_status_is_that_of_the_request(profiler: dict[str, Any] | None, status: str) -> None:
    """Methods of SDK 2 that turn the profiler on and off refuse a job that has this status already."""
    own = {} if profiler is None else {"ProfilerConfig": profiler}
    assert describe(job("train"), plain_request() | own)["ProfilingStatus"] == status
    assert describe(job("train"), {})["ProfilingStatus"] == "Disabled"

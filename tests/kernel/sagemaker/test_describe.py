"""A job as SageMaker would describe it, held against the model of the service itself."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import json
from msgspec.structs import replace
from service_model import answer, breaches
from walked_jobs import BILL, DONE, HERE, OPERATIONS, ROLE, RUN, S3, TYPE, allowed, rich, walked, wish

from jupyter_smx.agent.contract.platform_variables import ACCOUNT
from jupyter_smx.kernel.sagemaker.describe import description
from jupyter_smx.model.records.cluster import WarmPool, WarmPoolStatus
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.channel import Artifact, Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus, is_final

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


@pytest.mark.parametrize("kind", OPERATIONS)
def test_everything_that_is_said_of_a_job_is_a_member_of_sagemakers_answer(kind: str) -> None:
    found = description(rich(kind), HERE, BILL)
    assert [one for one in breaches(answer(OPERATIONS[kind]), found) if not allowed(*one)] == []


def test_a_training_job_has_what_its_record_has() -> None:
    found = description(rich("train"), HERE, BILL)
    when = [datetime.fromtimestamp(1e9 + seconds, timezone.utc) for seconds in range(7)]
    assert found["TrainingJobArn"] == f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-job/fit-aaaaaa"
    assert (found["TrainingJobStatus"], found["SecondaryStatus"]) == ("Completed", "Completed")
    assert found["HyperParameters"] == {"lr": "0.1", "layers": "[1, 2]"}
    assert found["Environment"] == {"AWS_REGION": "us-west-2", "HF_TOKEN": ""}
    assert found["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == f"{S3}/train"
    assert found["OutputDataConfig"]["S3OutputPath"] == f"file:///smx/jobs/{'a' * 12}/artifacts"
    assert found["ModelArtifacts"]["S3ModelArtifacts"] == f"file:///smx/jobs/{'a' * 12}/artifacts/model.tar.gz"
    kept = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "KeepAlivePeriodInSeconds": 600}
    assert found["ResourceConfig"] == kept
    assert found["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400, "MaxWaitTimeInSeconds": 90_000}
    assert found["RetryStrategy"] == {"MaximumRetryAttempts": 2}
    assert found["CheckpointConfig"] == {"S3Uri": f"{S3}/kept", "LocalPath": "/opt/ml/checkpoints"}
    assert found["FinalMetricDataList"] == [{"MetricName": "loss", "Value": 0.25, "Timestamp": when[4]}]
    assert (found["TrainingTimeInSeconds"], found["BillableTimeInSeconds"]) == (13, 1)  # the API knows none below 1
    assert found["WarmPoolStatus"] == {
        "Status": "Reused",
        "ResourceRetainedBillableTimeInSeconds": 7,
        "ReusedByJob": "fit-bbbbbb",
    }
    assert (found["CreationTime"], found["TrainingStartTime"], found["TrainingEndTime"]) == (when[0], when[2], when[5])
    rows = found["SecondaryStatusTransitions"]
    assert [row["Status"] for row in rows] == [
        "Pending",
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    assert [row["StartTime"] for row in rows] == when[:6]
    assert rows[1]["EndTime"] == rows[2]["StartTime"]


def test_a_processing_job_has_no_second_status_and_a_message() -> None:
    found = description(rich("process"), HERE, BILL)
    assert not {"SecondaryStatus", "SecondaryStatusTransitions", "WarmPoolStatus", "HyperParameters"} & set(found)
    assert (found["ProcessingJobStatus"], found["ExitMessage"]) == ("Completed", "42 rows")
    assert found["AppSpecification"]["ContainerArguments"][-1] == "--fast"
    assert found["ProcessingOutputConfig"]["Outputs"][0]["S3Output"] == {
        "S3Uri": f"{S3}/out",
        "LocalPath": "/opt/ml/out",
        "S3UploadMode": "Continuous",
    }


def test_what_is_not_known_has_no_key() -> None:
    found = description(wish(instance_groups=(InstanceGroup(),), role="me"), HERE)
    absent = {
        "TrainingStartTime", "TrainingEndTime", "FailureReason", "RoleArn", "InputDataConfig", "WarmPoolStatus",
        "FinalMetricDataList", "CheckpointConfig", "RetryStrategy", "TrainingTimeInSeconds", "BillableTimeInSeconds",
        "VpcConfig",
    }  # fmt: skip
    assert not absent & set(found)
    assert found["AlgorithmSpecification"] == {"TrainingInputMode": "File"}
    assert found["ResourceConfig"] == {"InstanceType": "local", "InstanceCount": 1}
    assert "EndTime" not in found["SecondaryStatusTransitions"][-1]
    assert None not in found.values()


def test_groups_are_instance_groups_and_a_reason_is_there_where_it_failed() -> None:
    groups = (TYPE, InstanceGroup(name="data", instance_type="ml.c5.xlarge"))
    failed = replace(
        walked(wish(instance_groups=groups), *RUN, SecondaryStatus.FAILED), failure_reason="AlgorithmError"
    )
    found = description(failed, HERE)
    assert [group["InstanceGroupName"] for group in found["ResourceConfig"]["InstanceGroups"]] == [TYPE.name, "data"]
    assert "InstanceType" not in found["ResourceConfig"]
    assert found["FailureReason"] == "AlgorithmError"
    assert len(description(replace(failed, failure_reason="x" * 2_000), HERE)["FailureReason"]) == 1_024
    assert list(breaches(answer("DescribeTrainingJob"), found)) == [
        (".ModelArtifacts.S3ModelArtifacts", f"file:///smx/jobs/{'a' * 12}/artifacts/model.tar.gz does not match"),
        (".OutputDataConfig.S3OutputPath", f"file:///smx/jobs/{'a' * 12}/artifacts does not match"),
    ]


def test_places_of_this_machine_are_urls_of_files() -> None:
    outputs = (
        Output(name="a", path="/opt/ml/processing/a", destination="there"),
        Output(name="b", path="/opt/ml/processing/b", destination="/home/me/b"),
        Output(name="c", path="/opt/ml/processing/c"),
    )
    found = description(wish("process", outputs=outputs, working_directory="/home/me"), HERE)
    uris = [output["S3Output"]["S3Uri"] for output in found["ProcessingOutputConfig"]["Outputs"]]
    own = f"file:///smx/jobs/{'a' * 12}/artifacts"
    assert uris == ["file:///home/me/there", "file:///home/me/b", f"{own}/outputs/c"]
    brought = (Artifact(name="model.tar.gz", path="/home/me/model.tar.gz", size=1),)
    model = description(replace(wish(), artifacts=brought), HERE)["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == "file:///home/me/model.tar.gz"
    flat = description(wish(disable_output_compression=True), HERE)
    assert flat["ModelArtifacts"]["S3ModelArtifacts"] == f"{own}/outputs/model"
    assert flat["OutputDataConfig"]["CompressionType"] == "NONE"


URL = "https://me:hunter2@host/x?sig=hunter2"


@pytest.mark.parametrize("kind", OPERATIONS)
def test_no_secret_is_described(kind: str) -> None:
    job = wish(
        kind,
        environment={"HF_TOKEN": "hunter2", "URL": URL},
        hyperparameters={"db": URL},
        arguments=(URL,) if kind == "process" else (),
        channels=(Channel(name="a", source=URL),),
        outputs=(Output(name="b", path="/opt/ml/b", destination=URL),),
        checkpoint=URL,
    )
    assert b"hunter2" not in json.encode(description(job, HERE, BILL))


def test_a_message_of_an_old_record_has_no_secret() -> None:
    told = description(replace(rich("process"), exit_message=f"42 rows of {URL}"), HERE)["ExitMessage"]
    assert told == "42 rows of https://me:…@host/x?sig=…"


def test_hosts_that_were_no_warm_pool_have_no_status_of_one() -> None:
    gone = WarmPool(status=WarmPoolStatus.TERMINATED, reason="No keep-alive.")
    job = replace(walked(wish(), *DONE), warm_pool=gone)
    assert "WarmPoolStatus" not in description(job, HERE)
    reused = replace(job, why=Why(start="warm", sentence="", reused_from="fit-bbbbbb"))
    asked = replace(job, spec=replace(job.spec, keep_alive=60))
    kept = replace(job, warm_pool=replace(gone, resource_retained_billable_seconds=3))
    left = replace(job, warm_pool=WarmPool(status=WarmPoolStatus.AVAILABLE))
    found = [description(one, HERE)["WarmPoolStatus"]["Status"] for one in (reused, asked, kept, left)]
    assert found == ["Terminated"] * 3 + ["Available"]


TEXT = st.text("aB0-_. /{}\"'é", max_size=9)
STEPS = st.lists(st.sampled_from(SecondaryStatus), max_size=6)
FIELDS = {
    "hyperparameters": st.dictionaries(TEXT, TEXT, max_size=5),
    "environment": st.dictionaries(st.sampled_from(["A", "TOKEN", "b_1", "AWS_REGION"]), st.just("x-1"), max_size=4),
    "role": st.sampled_from(["", "me", ROLE]),
    "image": st.sampled_from(["", "python:3.11"]),
    "max_run": st.integers(1, 86_400),
    "network_isolation": st.booleans(),
    "channels": st.sampled_from([(), (Channel(name="a", source="/data/*.csv", mode="FastFile", groups=("g",)),)]),
}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from([*OPERATIONS]), fields=st.fixed_dictionaries(FIELDS), steps=STEPS)
def test_whatever_a_job_is_and_wherever_the_answer_is_one(
    kind: str, fields: dict[str, Any], steps: list[SecondaryStatus]
) -> None:
    job = walked(wish(kind, **fields), *steps)
    found = description(job, HERE, BILL if is_final(job.state) else None)
    assert [one for one in breaches(answer(OPERATIONS[kind]), found) if not allowed(*one)] == []


@pytest.mark.processes
def test_a_real_job_is_described_by_its_handle_and_on_the_line(
    notebook: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "%%train --as job --wait --hp lr=0.1 --metric loss=loss=([0-9.]+)\nimport os\n"
    told = "print(os.environ['TRAINING_JOB_ARN'])\nprint('loss=0.5')\nopen('/opt/ml/model/a', 'w')"
    assert notebook.run_cell(cell + told).success
    job = notebook.user_ns["job"]
    found = job.describe()
    assert [one for one in breaches(answer("DescribeTrainingJob"), found) if not allowed(*one)] == []
    assert found["TrainingJobArn"] == job.logs().split()[0], "it is what the job was told"
    assert found["ModelArtifacts"]["S3ModelArtifacts"] == f"file://{job.artifacts['model.tar.gz']}"
    assert [(one["MetricName"], one["Value"]) for one in found["FinalMetricDataList"]] == [("loss", 0.5)]
    assert found["TrainingStartTime"] <= found["TrainingEndTime"]
    capsys.readouterr()
    assert notebook.run_cell("%smx describe job").success
    shown = json.decode(capsys.readouterr().out)
    assert shown["HyperParameters"] == {"lr": "0.1"}
    assert datetime.fromisoformat(shown["CreationTime"].replace("Z", "+00:00")) == found["CreationTime"]

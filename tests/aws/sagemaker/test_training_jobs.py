"""Training jobs through the operations, a real controller and the local engine."""

from __future__ import annotations

import asyncio
import secrets
import tarfile
import time
from datetime import timedelta
from typing import Any

import pytest
from calls import BUCKET, ROLE, SDK_2, WAITER, Calls

from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.testing.eventually import eventually

pytestmark = pytest.mark.processes

THREE_LINES = """
import os
print(os.environ["TRAINING_JOB_NAME"])
open(os.environ["SM_MODEL_DIR"] + "/model.joblib", "w").write("weights")
print("accuracy=0.75;")
"""


async def test_a_job_of_an_estimator_runs_and_is_described(shared_calls: Calls) -> None:
    """Cases 2, 4, 5 and 6."""
    own = {"HyperParameters": {"text": '"abc"', "n": "10"}, "Environment": {"API_KEY": "x"}}
    request = shared_calls.training("sk-1", THREE_LINES, **own)
    created = await shared_calls("CreateTrainingJob", **request)
    assert created == {"TrainingJobArn": "arn:aws:sagemaker:us-east-1:000000000000:training-job/sk-1"}
    running = await shared_calls("DescribeTrainingJob", TrainingJobName="sk-1")
    assert running["TrainingJobStatus"] == "InProgress"
    assert "ModelArtifacts" not in running
    assert all({"Status", "StartTime", "StatusMessage"} <= row.keys() for row in running["SecondaryStatusTransitions"])
    found = await shared_calls.end("sk-1")
    assert (found["TrainingJobStatus"], found.get("FailureReason")) == ("Completed", None)
    for name in ("HyperParameters", "Environment", "AlgorithmSpecification", "ResourceConfig", "DebugHookConfig"):
        assert found[name] == request[name], name
    assert found["OutputDataConfig"] == {"S3OutputPath": f"s3://{BUCKET}/", "KmsKeyId": "", "CompressionType": "GZIP"}
    assert found["TrainingTimeInSeconds"] >= 1
    assert found["TrainingEndTime"].tzinfo is not None
    assert [(row["MetricName"], row["Value"]) for row in found["FinalMetricDataList"]] == [("accuracy", 0.75)]
    model = found["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == f"s3://{BUCKET}/sk-1/output/model.tar.gz"
    with tarfile.open(shared_calls.bucket / "sk-1/output/model.tar.gz") as packed:
        assert packed.getnames() == ["model.joblib"]


async def test_a_name_is_given_once_and_a_repeated_call_creates_one_job(shared_calls: Calls) -> None:
    """Cases 3, 7, 9 and 72."""
    request = shared_calls.training("once-2", THREE_LINES)
    first = await shared_calls("CreateTrainingJob", call="one", **request)
    assert await shared_calls("CreateTrainingJob", call="one", **request) == first
    code, text = await shared_calls.error("CreateTrainingJob", call="two", **request)
    assert code == "ResourceInUse"
    assert text == (
        "Training job names must be unique within an AWS account and region, and a training job with this name "
        "already exists (arn:aws:sagemaker:us-east-1:000000000000:training-job/once-2)"
    )
    assert (await shared_calls.error("CreateTrainingJob", call="one", **{**request, "RoleArn": f"{ROLE}2"}))[0] == code
    await shared_calls.end("once-2")
    rejected = await shared_calls.error("StopTrainingJob", TrainingJobName="once-2")
    assert rejected[0] == "ValidationException"
    assert "The request was rejected because the training job is in status Completed" in rejected[1]
    for operation in ("DescribeTrainingJob", "StopTrainingJob"):
        for name in ("nope", "once"):  # the controller would find the second
            unknown = await shared_calls.error(operation, TrainingJobName=name)
            assert unknown == ("ValidationException", "Requested resource not found.")


async def test_a_running_job_is_stopped(shared_calls: Calls) -> None:
    """Case 8."""
    await shared_calls(
        "CreateTrainingJob", **shared_calls.training("long", "import time\nprint('on')\ntime.sleep(100)")
    )

    async def trains() -> Any:
        found = await shared_calls("DescribeTrainingJob", TrainingJobName="long")
        return found if found["SecondaryStatus"] == "Training" else None

    changed = (await eventually(trains, "the job trains", within=60))["LastModifiedTime"]
    (row,) = (await shared_calls("ListTrainingJobs"))["TrainingJobSummaries"]
    assert row["LastModifiedTime"] == changed
    for shift, names in ((-1, ["long"]), (0, [])):
        newer = await shared_calls("ListTrainingJobs", LastModifiedTimeAfter=changed + timedelta(microseconds=shift))
        assert [row["TrainingJobName"] for row in newer["TrainingJobSummaries"]] == names
    assert await shared_calls("StopTrainingJob", TrainingJobName="long") == {}
    found = await shared_calls("DescribeTrainingJob", TrainingJobName="long")
    assert found["TrainingJobStatus"] in ("Stopping", "Stopped")
    found = await shared_calls.end("long")
    assert (found["TrainingJobStatus"], found["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert "TrainingEndTime" in found


async def test_a_job_that_writes_its_model_at_the_stop_has_one(shared_calls: Calls) -> None:
    """SageMaker sends SIGTERM so that a script can write it; ``model_data`` of the SDK reads its place."""
    started = shared_calls.bucket / "started"
    script = (
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    open(os.environ['SM_MODEL_DIR'] + '/weights', 'w').write('half')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        f"open({str(started)!r}, 'w').close()\n"
        "time.sleep(100)"
    )
    await shared_calls("CreateTrainingJob", **shared_calls.training("halved", script))

    async def runs() -> bool:
        return started.exists()

    await eventually(runs, "the script runs", within=60)
    await shared_calls("StopTrainingJob", TrainingJobName="halved")
    found = await shared_calls.end("halved")
    assert found["TrainingJobStatus"] == "Stopped"
    assert found["ModelArtifacts"] == {"S3ModelArtifacts": f"s3://{BUCKET}/halved/output/model.tar.gz"}
    with tarfile.open(shared_calls.bucket / "halved/output/model.tar.gz") as packed:
        assert packed.getnames() == ["weights"]


async def test_a_failed_job_says_why_to_its_waiter(shared_calls: Calls) -> None:
    """Case 11."""
    found = await shared_calls.train("bad", "raise ValueError('too hot')")
    assert found["TrainingJobStatus"] == "Failed"
    assert found["FailureReason"].startswith("AlgorithmError: ExecuteUserScriptError:")
    assert "ValueError: too hot" in found["FailureReason"]


async def test_lists_are_filtered_sorted_and_paged(shared_calls: Calls) -> None:
    """Cases 24 and 25."""
    resources = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30}
    keep = {"ResourceConfig": {**resources, "KeepAlivePeriodInSeconds": 60}}
    for number in range(5):
        await shared_calls.train(f"job-{number}", "print(1)", **keep)
    await shared_calls.train("bad", "raise SystemExit(3)", **keep)
    rows, token = [], {}
    for _ in range(3):
        page = await shared_calls("ListTrainingJobs", NameContains="JOB", MaxResults=2, **token)
        rows += page["TrainingJobSummaries"]
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}
    assert token == {}
    assert [row["TrainingJobName"] for row in rows] == [f"job-{number}" for number in (4, 3, 2, 1, 0)]
    assert {"TrainingJobArn", "CreationTime", "TrainingEndTime", "LastModifiedTime"} <= rows[0].keys()
    third = rows[2]["CreationTime"]
    by_name = {"SortBy": "Name", "SortOrder": "Ascending"}
    newer = await shared_calls("ListTrainingJobs", CreationTimeAfter=third, StatusEquals="Completed", **by_name)
    assert [row["TrainingJobName"] for row in newer["TrainingJobSummaries"]] == ["job-3", "job-4"]
    failed = await shared_calls("ListTrainingJobs", StatusEquals="Failed")
    assert [row["TrainingJobName"] for row in failed["TrainingJobSummaries"]] == ["bad"]
    filters = [{"Name": "TrainingJobName", "Operator": "Equals", "Value": name} for name in ("job-0", "job-3")]
    expression = {"Filters": filters, "Operator": "Or"}
    found = await shared_calls("Search", Resource="TrainingJob", SearchExpression=expression, MaxResults=20)
    assert [row["TrainingJob"]["TrainingJobName"] for row in found["Results"]] == ["job-3", "job-0"]


async def test_warm_pools_have_the_callers_names_and_are_kept_for_longer(shared_calls: Calls) -> None:
    """Cases 19, 21, 22 and 23."""
    resources = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30}
    keep = {"ResourceConfig": {**resources, "KeepAlivePeriodInSeconds": 600}}
    await shared_calls.train("one", "print(1)", **keep)
    second = await shared_calls.train("two", "print(2)", **keep)
    assert second["WarmPoolStatus"]["Status"] == "Available"
    first = await shared_calls("DescribeTrainingJob", TrainingJobName="one")
    assert (first["WarmPoolStatus"]["Status"], first["WarmPoolStatus"]["ReusedByJob"]) == ("Reused", "two")
    listed = await shared_calls("ListTrainingJobs", WarmPoolStatusEquals="Available")
    assert [row["TrainingJobName"] for row in listed["TrainingJobSummaries"]] == ["two"]
    longer = {"ResourceConfig": {"KeepAlivePeriodInSeconds": 1800}}
    updated = await shared_calls("UpdateTrainingJob", TrainingJobName="two", **longer)
    assert updated["TrainingJobArn"].endswith("training-job/two")
    changed = await shared_calls.end("two")
    assert changed["ResourceConfig"] == {**resources, **longer["ResourceConfig"]}
    assert changed["LastModifiedTime"] > second["LastModifiedTime"]
    (row,) = (await shared_calls("ListTrainingJobs", NameContains="two"))["TrainingJobSummaries"]
    assert row["LastModifiedTime"] == changed["LastModifiedTime"]
    (pool,) = await shared_calls.controller.pools()
    assert pool.expires_at == pytest.approx(time.time() + 1800, abs=2)
    await shared_calls("UpdateTrainingJob", TrainingJobName="two", ResourceConfig={"KeepAlivePeriodInSeconds": 0})
    assert (await shared_calls.end("two"))["WarmPoolStatus"]["Status"] == "Terminated"
    code, text = await shared_calls.error("UpdateTrainingJob", TrainingJobName="one", **longer)
    assert code == "ValidationException"
    assert "no warm pool" in text


async def test_tags_are_kept_beside_the_job(shared_calls: Calls) -> None:
    """Case 76, the tags."""
    tags = [{"Key": "team", "Value": "a"}, {"Key": "cost", "Value": "b"}]
    arn = (await shared_calls("CreateTrainingJob", **shared_calls.training("tagged", "print(1)", Tags=tags)))[
        "TrainingJobArn"
    ]
    assert (await shared_calls("ListTags", ResourceArn=arn))["Tags"] == tags
    await shared_calls("AddTags", ResourceArn=arn, Tags=[{"Key": "team", "Value": "c"}])
    await shared_calls("DeleteTags", ResourceArn=arn, TagKeys=["cost"])
    assert (await shared_calls("ListTags", ResourceArn=arn))["Tags"] == [{"Key": "team", "Value": "c"}]
    assert "Tags" not in await shared_calls.end("tagged")
    await shared_calls("DeleteTrainingJob", TrainingJobName="tagged")
    assert (await shared_calls.error("ListTags", ResourceArn=arn))[0] == "ValidationException"
    assert (await shared_calls("CreateTrainingJob", **shared_calls.training("tagged", "print(1)")))[
        "TrainingJobArn"
    ] == arn


async def test_a_keep_alive_above_the_limit_is_shortened_and_one_of_a_running_job_counts_after_it(
    shared_calls: Calls,
) -> None:
    """Cases 16 and 20."""
    resources = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30}
    keep = {"ResourceConfig": {**resources, "KeepAlivePeriodInSeconds": 21_600}}
    started = shared_calls.bucket / "started"
    wait = f"import os, time\nwhile not os.path.exists({str(started)!r}): time.sleep(0.05)"
    await shared_calls("CreateTrainingJob", **shared_calls.training("long", wait, **keep))
    assert (await shared_calls.controller.job("long")).job.spec.keep_alive == 3_600
    await shared_calls("UpdateTrainingJob", TrainingJobName="long", ResourceConfig={"KeepAlivePeriodInSeconds": 1_800})
    started.touch()
    found = await shared_calls.end("long")
    assert found["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 1_800
    (pool,) = await shared_calls.controller.pools()
    assert pool.expires_at == pytest.approx(found["TrainingEndTime"].timestamp() + 1_800, abs=2)
    notes = (await shared_calls.controller.job("long")).job.why.notes
    assert any("21600 is above the limit of 3600 seconds" in note for note in notes)
    assert any(note.startswith("Image ") for note in notes)


async def test_the_local_engine_refuses_network_isolation_with_the_cure(shared_calls: Calls) -> None:
    """Case 75; nothing of the request stays."""
    code, text = await shared_calls.error(
        "CreateTrainingJob", **shared_calls.training("alone", "pass", EnableNetworkIsolation=True)
    )
    assert code == "ValidationException"
    assert text.startswith("EnableNetworkIsolation: the engine local cannot isolate its hosts from the network.")
    assert "--" not in text
    assert (await shared_calls.error("DescribeTrainingJob", TrainingJobName="alone"))[
        1
    ] == "Requested resource not found."
    assert list(shared_calls.requests.iterdir()) == []


async def test_the_first_answer_for_an_sdk_comes_at_the_end_and_a_waiter_may_go_away(shared_calls: Calls) -> None:
    """Case 10 without boto3's own sleep, and section 8.3 of the fact sheet."""
    started = shared_calls.bucket / "started"
    wait = f"import os, time\nwhile not os.path.exists({str(started)!r}): time.sleep(0.05)"
    await shared_calls("CreateTrainingJob", **shared_calls.training("held", wait))
    gone = asyncio.ensure_future(shared_calls("DescribeTrainingJob", TrainingJobName="held", agent=WAITER))
    held = asyncio.ensure_future(shared_calls("DescribeTrainingJob", TrainingJobName="held", agent=SDK_2))
    seen = await shared_calls("DescribeTrainingJob", TrainingJobName="held")
    assert seen["TrainingJobStatus"] == "InProgress"
    assert not gone.done()
    assert not held.done()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    started.touch()
    assert (await held)["TrainingJobStatus"] == "Completed"


async def test_a_channel_is_the_folder_of_its_bucket_and_a_file_stays_there(shared_calls: Calls) -> None:
    uri = shared_calls.put("data/train/a.csv", "1,2").removesuffix("/a.csv")
    shared_calls.put("data/more/b.csv", "3")
    script = (
        "import os\n"
        "print(open('/opt/ml/input/data/train/a.csv').read(), os.listdir(os.environ['SM_CHANNEL_FAST']))\n"
        "open('/opt/ml/output/data/seen', 'w').write('x')"
    )
    source = {"S3DataType": "S3Prefix", "S3DataDistributionType": "FullyReplicated"}
    channels = [
        {"ChannelName": "train", "DataSource": {"S3DataSource": {**source, "S3Uri": uri}}},
        {
            "ChannelName": "fast",
            "DataSource": {"S3DataSource": {**source, "S3Uri": uri.replace("train", "more")}},
            "InputMode": "FastFile",
        },
    ]
    found = await shared_calls.train("inputs", script, InputDataConfig=channels)
    assert found["TrainingJobStatus"] == "Completed", found.get("FailureReason")
    assert found["InputDataConfig"] == channels
    assert (shared_calls.bucket / "data/train/a.csv").read_text() == "1,2"
    assert (shared_calls.bucket / "inputs/output/output.tar.gz").exists()


async def test_two_archives_of_one_source_have_one_name(shared_calls: Calls) -> None:
    """Pitfall 10.10: each ``fit`` packs the same files into other bytes."""
    await shared_calls.train("one", "print(1)")
    await shared_calls.train("two", "print(1)")
    archives = [(shared_calls.bucket / name / "source/sourcedir.tar.gz").read_bytes() for name in ("one", "two")]
    assert archives[0] != archives[1]
    digests = {(await shared_calls.controller.job(name)).job.spec.source_dir.sha256 for name in ("one", "two")}
    assert len(digests) == 1


async def test_another_front_and_jobs_of_a_notebook_are_described_as_well(shared_calls: Calls) -> None:
    """Case 73, after a restart of the front; and a job that was submitted by this tool."""
    own = {"Environment": {"TOKEN": "secret"}, "ExperimentConfig": {"RunName": "x"}}
    described = await shared_calls.train("mine", "print(1)", **own)
    path = next(shared_calls.requests.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600
    restarted = Calls(shared_calls.new_service, shared_calls.controller, shared_calls.bucket)
    assert await restarted("DescribeTrainingJob", TrainingJobName="mine") == described
    spec = JobSpec(kind="train", source="print(1)", job_name="theirs", hyperparameters={"a": "1"})
    await shared_calls.controller.submit(secrets.token_hex(16), spec)
    theirs = await shared_calls.end("theirs")
    assert theirs["TrainingJobStatus"] == "Completed"
    assert theirs["HyperParameters"]["a"] == "1"
    assert theirs["ModelArtifacts"]["S3ModelArtifacts"].startswith("file:///")
    assert theirs["OutputDataConfig"]["KmsKeyId"] == ""
    listed = await shared_calls("ListTrainingJobs")
    assert [row["TrainingJobName"] for row in listed["TrainingJobSummaries"]] == ["theirs", "mine"]

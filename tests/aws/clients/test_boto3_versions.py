"""The oldest and the newest boto3 that is supported, with protocols of their own for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from boto3_jobs import CREATE

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]


def test_a_job_its_waiter_its_log_and_its_metrics(boto3: AwsClient) -> None:
    ran = boto3.run(
        CREATE
        + """
import datetime
begin = time.time()
created = create(name, "import time\\nprint('loss=0.5;', flush=True)\\ntime.sleep(5)\\nprint('over')")
sm.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=name)
waited = time.time() - begin
about = sm.describe_training_job(TrainingJobName=name)
rows = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=name)["events"]
now = datetime.datetime.now(datetime.timezone.utc)
hour = datetime.timedelta(hours=1)
points = boto3.client("cloudwatch").get_metric_statistics(
    Namespace="/aws/sagemaker/TrainingJobs", MetricName="loss", Dimensions=[{"Name": "TrainingJobName", "Value": name}],
    StartTime=now - hour, EndTime=now + hour, Period=60, Statistics=["Average"])
result = [created["TrainingJobArn"].endswith("training-job/" + name), waited, about["TrainingJobStatus"],
          [row["message"] for row in rows], [point["Average"] for point in points["Datapoints"]]]
"""
    )
    has_arn, waited, status, lines, points = ran.result
    assert has_arn
    assert waited < 8, "the job takes 5 s, and the waiter's next look would come after 120 s"
    assert status == "Completed"
    assert lines == ["loss=0.5;", "over"]
    assert points == [0.5]
    assert ran.names == []


def test_errors_are_the_classes_and_texts_that_clients_compare(boto3: AwsClient) -> None:
    ran = boto3.run(
        CREATE
        + """
import botocore.exceptions
create(name, "pass")
create(name + "-bad", "raise ValueError('too hot')")
waiter = sm.get_waiter("training_job_completed_or_stopped")
waiter.wait(TrainingJobName=name)
try:
    waiter.wait(TrainingJobName=name + "-bad")
except botocore.exceptions.WaiterError as fault:
    failed = fault.last_response["FailureReason"]
taken = error(create, name=name, code="pass")
result = {"failed": failed, "taken": taken, "unknown": error(sm.describe_training_job, TrainingJobName="nope"),
          "over": error(sm.stop_training_job, TrainingJobName=name),
          "processing": error(sm.describe_processing_job, ProcessingJobName="nope"),
          "name": error(create, name="x_y", code="pass"),
          "log": error(logs.get_log_events, logGroupName="/aws/sagemaker/TrainingJobs", logStreamName="nope/algo-1")}
"""
    )
    errors = ran.result
    assert errors["failed"].startswith("AlgorithmError: ExecuteUserScriptError:")
    assert "too hot" in errors["failed"]
    assert errors["taken"][0] == "ResourceInUse"
    assert "already exists" in errors["taken"][2]
    assert errors["unknown"][1] == "ValidationException"
    assert errors["unknown"][2].startswith("Requested resource not found")
    assert "The request was rejected because the training job is in status Completed" in errors["over"][2]
    assert errors["processing"][2].startswith("Could not find requested job")
    assert "trainingJobName" in errors["name"][2]
    assert errors["log"][0] == "ResourceNotFoundException"


def test_a_large_object_comes_back_as_it_was(boto3: AwsClient) -> None:
    ran = boto3.run(
        """
import boto3, hashlib, os
s3 = boto3.client("s3")
s3.create_bucket(Bucket="large")
body = os.urandom(20 << 20)
s3.put_object(Bucket="large", Key="in one piece", Body=body)
open("up", "wb").write(body)
s3.upload_file("up", "large", "in parts")
result = []
for key in ("in one piece", "in parts"):
    s3.download_file("large", key, "down")
    result.append(open("down", "rb").read() == body)
"""
    )
    assert ran.result == [True, True]


@pytest.mark.parametrize("boto3", ["new"], indirect=True)  # it adds a checksum to each part, the old one does not
def test_a_gigabyte_goes_there_and_back_in_seconds(boto3: AwsClient) -> None:
    ran = boto3.run(
        """
import boto3, filecmp, os, time
s3 = boto3.client("s3")
s3.create_bucket(Bucket="gigabyte")
with open("up", "wb") as file:
    for _ in range(16):
        file.write(os.urandom(64 << 20))
result = []
for call, words in ((s3.upload_file, ("up", "gigabyte", "key")), (s3.download_file, ("gigabyte", "key", "down"))):
    begin = time.monotonic()
    call(*words)
    result.append(time.monotonic() - begin)
result.append(filecmp.cmp("up", "down", shallow=False))
s3.delete_object(Bucket="gigabyte", Key="key")
for name in ("up", "down"):
    os.remove(name)
""",
        limit=200.0,
    )
    up, down, equal = ran.result
    assert equal
    assert max(up, down) < 60, "it takes less than 20 s where no other test runs"

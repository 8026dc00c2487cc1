"""Training jobs through the operations, a real controller and the local engine."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest
from calls import BUCKET

if TYPE_CHECKING:
    from calls import Calls

pytestmark = pytest.mark.processes

THREE_LINES = """
import os
print(os.environ["TRAINING_JOB_NAME"])
open(os.environ["SM_MODEL_DIR"] + "/model.joblib", "w").write("weights")
print("accuracy=0.75;")
"""


async def test_a_job_of_an_estimator_runs_and_is_described(calls: Calls) -> None:
    """Cases 2, 4, 5 and 6."""
    own = {"HyperParameters": {"text": '"abc"', "n": "10"}, "Environment": {"API_KEY": "x"}}
    request = calls.training("sk-1", THREE_LINES, **own)
    created = await calls("CreateTrainingJob", **request)
    assert created == {"TrainingJobArn": "arn:aws:sagemaker:us-east-1:000000000000:training-job/sk-1"}
    running = await calls("DescribeTrainingJob", TrainingJobName="sk-1")
    assert running["TrainingJobStatus"] == "InProgress"
    assert "ModelArtifacts" not in running
    assert all({"Status", "StartTime", "StatusMessage"} <= row.keys() for row in running["SecondaryStatusTransitions"])
    found = await calls.end("sk-1")
    assert (found["TrainingJobStatus"], found.get("FailureReason")) == ("Completed", None)
    for name in ("HyperParameters", "Environment", "AlgorithmSpecification", "ResourceConfig", "DebugHookConfig"):
        assert found[name] == request[name], name
    assert found["OutputDataConfig"] == {"S3OutputPath": f"s3://{BUCKET}/", "KmsKeyId": "", "CompressionType": "GZIP"}
    assert found["TrainingTimeInSeconds"] >= 1
    assert found["TrainingEndTime"].tzinfo is not None
    assert [(row["MetricName"], row["Value"]) for row in found["FinalMetricDataList"]] == [("accuracy", 0.75)]
    model = found["ModelArtifacts"]["S3ModelArtifacts"]
    assert model == f"s3://{BUCKET}/sk-1/output/model.tar.gz"
    with tarfile.open(calls.bucket / "sk-1/output/model.tar.gz") as packed:
        assert packed.getnames() == ["model.joblib"]

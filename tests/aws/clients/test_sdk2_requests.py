"""Requests of SageMaker's Python SDK 2 that a front could refuse or delay: fields without an effect, images, roles."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.kernel.client import autostart

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

WARM_FITS = 3
"""Calls of which the fastest counts, since other tests run beside this one."""
ESTIMATOR = """
import time
import boto3, sagemaker
from sagemaker.sklearn import SKLearn
sm = boto3.client("sagemaker")
def estimator(**more):
    named = dict(entry_point="train.py", role="Smx", instance_type="ml.m5.large", framework_version="1.2-1",
                 py_version="py3")
    return SKLearn(**{**named, **more})
def end(made):
    name = made.latest_training_job.name
    sm.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName=name)
    return sm.describe_training_job(TrainingJobName=name)
"""


def test_a_warm_script_begins_soon_after_fit(sdk: AwsClient) -> None:
    """Case 27: the seconds from the call of fit, with all that the SDK does before its request.

    Most of them are the SDK's own, so the limit grows with the number of processes that share a processor.
    """
    (sdk.folder / "train.py").write_text("import time\nprint(time.time())\n", encoding="utf-8")
    ran = sdk.run(
        ESTIMATOR
        + f"""
made, logs, result = estimator(keep_alive_period_in_seconds=600), boto3.client("logs"), []
for _ in range({WARM_FITS} + 1):
    begin = time.time()
    made.fit(wait=False)
    end(made)
    (row,) = logs.filter_log_events(
        logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=made.latest_training_job.name)["events"]
    result.append(float(row["message"]) - begin)
made.latest_training_job.update(made, resource_config={{"KeepAlivePeriodInSeconds": 0}})
"""
    )
    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert min(ran.result[1:]) < 1.5 * share


def test_fields_without_an_effect_are_accepted_described_and_noted(sdk: AwsClient) -> None:
    """Case 76."""
    ran = sdk.run(
        ESTIMATOR
        + """
from sagemaker.debugger import DebuggerHookConfig
made = estimator(
    subnets=["subnet-1"], security_group_ids=["sg-1"], volume_kms_key="disk", output_kms_key="model",
    tags=[{"Key": "team", "Value": "blue"}],
    debugger_hook_config=DebuggerHookConfig(s3_output_path="s3://" + sagemaker.Session().default_bucket()))
made.fit(wait=False, experiment_config={"ExperimentName": "e", "TrialName": "t"})
about = end(made)
keys = "TrainingJobName", "VpcConfig", "ExperimentConfig", "DebugHookConfig"
result = {key: about[key] for key in keys}
result |= {"kms": [about["ResourceConfig"]["VolumeKmsKeyId"], about["OutputDataConfig"]["KmsKeyId"]],
           "tags": sm.list_tags(ResourceArn=about["TrainingJobArn"])["Tags"]}
"""
    )
    found = ran.result
    assert found["VpcConfig"] == {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
    assert found["kms"] == ["disk", "model"]
    assert found["tags"] == [{"Key": "team", "Value": "blue"}]
    assert found["ExperimentConfig"] == {"ExperimentName": "e", "TrialName": "t"}
    assert found["DebugHookConfig"]["S3OutputPath"].startswith("s3://sagemaker-")
    with closing(autostart.client()) as client:
        notes = {note.partition(":")[0] for note in client.job(found["TrainingJobName"]).why.notes}
    assert {"VpcConfig", "ResourceConfig.VolumeKmsKeyId", "OutputDataConfig.KmsKeyId"} <= notes


def test_a_built_in_algorithm_is_refused_at_the_create(sdk: AwsClient) -> None:
    """Case 74."""
    ran = sdk.run(
        ESTIMATOR
        + """
from sagemaker.estimator import Estimator
image = sagemaker.image_uris.retrieve("kmeans", "us-east-1")
made = Estimator(image, "Smx", 1, "ml.m5.large", hyperparameters={"k": 2, "feature_dim": 2})
try:
    made.fit()
except Exception as error:
    result = [error.operation_name, error.response["Error"]["Code"], error.response["Error"]["Message"]]
"""
    )
    operation, code, text = ran.result
    assert (operation, code) == ("CreateTrainingJob", "ValidationException")
    assert "there is no script" in text
    assert "kmeans" in text


def test_a_plain_script_has_an_execution_role_and_a_bucket_without_a_network(sdk: AwsClient) -> None:
    ran = sdk.run(
        """
import sagemaker
result = [sagemaker.get_execution_role(), sagemaker.Session().default_bucket()]
"""
    )
    assert ran.result == ["arn:aws:iam::000000000000:role/Smx", "sagemaker-us-east-1-000000000000"]
    assert ran.names == []

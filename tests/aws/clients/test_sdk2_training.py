"""Estimators of SageMaker's Python SDK 2, unmodified, train on hosts of this machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from aws_client import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

ESTIMATOR = """
import sagemaker
from sagemaker.sklearn import SKLearn
def estimator(**more):
    named = dict(entry_point="train.py", role="Smx", instance_type="ml.m5.large",
                 framework_version="1.2-1", py_version="py3",
                 metric_definitions=[{"Name": "accuracy", "Regex": "accuracy=(.*?);"}])
    return SKLearn(**{**named, **more})
"""


def test_fit_prints_the_log_and_the_model_can_be_downloaded(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
from sagemaker.s3 import S3Downloader
made = estimator(hyperparameters={"epochs": 3})
made.fit(wait=True)
S3Downloader.download(made.model_data, "got")
import tarfile
with tarfile.open("got/model.tar.gz") as archive:
    result = [made.model_data, archive.extractfile("model.json").read().decode()]
"""
    )
    for line in ("first line", "second line", "accuracy=0.75;"):
        assert line in ran.output
    where, model = ran.result
    assert where.startswith("s3://sagemaker-")
    assert where.endswith("/output/model.tar.gz")
    assert model == '{"epochs": 3}'
    assert ran.names == [], "no call left the machine"


def test_the_second_fit_reuses_the_warm_pool(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
made = estimator(keep_alive_period_in_seconds=600)
made.fit()
first = made.latest_training_job.name
print("again")
made.fit()
describe = sagemaker.Session().sagemaker_client.describe_training_job
second = made.latest_training_job.name
about = describe(TrainingJobName=second)
start = (about["TrainingStartTime"] - about["CreationTime"]).total_seconds()
result = [start, describe(TrainingJobName=first)["WarmPoolStatus"], about["WarmPoolStatus"]["Status"], second]
made.latest_training_job.update(made, resource_config={"KeepAlivePeriodInSeconds": 0})
result.append(describe(TrainingJobName=second)["WarmPoolStatus"]["Status"])
"""
    )
    start, first, second, name, released = ran.result
    assert start < 1.0, "what the SDK does before is not ours"
    assert "Reusing a warm pool" in ran.output.split("again", 1)[1]
    assert (first["Status"], first["ReusedByJob"]) == ("Reused", name)
    assert (second, released) == ("Available", "Terminated")


def test_a_script_that_fails_raises_the_sdks_error_with_the_reason(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
from sagemaker.exceptions import UnexpectedStatusException
try:
    estimator(hyperparameters={"fail": "no rows"}).fit()
except UnexpectedStatusException as error:
    result = str(error)
"""
    )
    assert "ExecuteUserScriptError" in ran.result
    assert "no rows" in ran.result


def test_without_logs_fit_returns_soon(sdk: AwsClient) -> None:
    (sdk.folder / "train.py").write_text("import time\ntime.sleep(3)\n", encoding="utf-8")
    ran = sdk.run(
        ESTIMATOR
        + """
import time
made = estimator()
for _ in range(2):  # the first call loads the rest of the SDK
    begin = time.time()
    made.fit(logs="None")
    result = time.time() - begin
"""
    )
    assert ran.result < 10, "the job takes 3 s, and the SDK looks every 5 s"


def test_a_stopped_job_is_a_warning(sdk: AwsClient) -> None:
    (sdk.folder / "train.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n", encoding="utf-8")
    ran = sdk.run(
        ESTIMATOR
        + """
made = estimator()
made.fit(wait=False)
made.latest_training_job.stop()
made.latest_training_job.wait()
result = made.latest_training_job.describe()["TrainingJobStatus"]
"""
    )
    assert ran.result == "Stopped"
    assert "Job ended with status 'Stopped' rather than 'Completed'" in ran.output


def test_an_estimator_attaches_to_a_job(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
made = estimator(hyperparameters={"epochs": 2, "text": "two"}, tags=[{"Key": "team", "Value": "blue"}])
made.fit(logs="None")
again = SKLearn.attach(made.latest_training_job.name)
result = [again.hyperparameters()["epochs"], again.model_data == made.model_data, again.tags]
"""
    )
    assert ran.result == ["2", True, [{"Key": "team", "Value": "blue"}]]


def test_an_estimator_attaches_to_a_rerun_and_to_a_job_of_a_notebook(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
import time
import jupyter_smx
from contextlib import closing
from jupyter_smx.kernel.client import autostart
made = estimator(hyperparameters={"epochs": 2, "text": "two"})
made.fit(logs="None")
with closing(autostart.client()) as client:
    rerun = client.rerun(made.latest_training_job.name, "e" * 32, time.time()).name
    other = jupyter_smx.train(entry_point="train.py", hyperparameters={"epochs": 3, "text": "one"}).wait()
    again, own = SKLearn.attach(rerun), SKLearn.attach(other.name)
    result = [made.model_data, rerun, again.model_data, again.output_path, again.hyperparameters()["text"],
              own.hyperparameters()["epochs"], own.entry_point, own.model_data, own.output_path]
"""
    )
    first, rerun, second, *rest = ran.result
    bucket = first.rsplit("/", 3)[0]
    assert second == f"{bucket}/{rerun}/output/model.tar.gz" != first
    path, text, epochs, entry, model, own_path = rest
    assert (path, text, epochs, entry, own_path) == (bucket, '"two"', "3", "train.py", f"{bucket}/")
    assert model.startswith("file:///")


def test_metrics_are_a_table(sdk: AwsClient) -> None:
    ran = sdk.run(
        ESTIMATOR
        + """
made = estimator()
made.fit(logs="None")
table = made.training_job_analytics.dataframe()
result = table[["metric_name", "value"]].values.tolist()
"""
    )
    assert ran.result == [["accuracy", 0.75]]


def test_what_trains_nothing_here_says_how_to_go_back(sdk: AwsClient) -> None:
    ran = sdk.run(
        """
import boto3
try:
    boto3.client("sagemaker").create_endpoint(EndpointName="e", EndpointConfigName="c")
except Exception as error:
    result = [type(error).__name__, error.response["Error"]["Code"], str(error)]
"""
    )
    _, code, text = ran.result
    assert code == "ValidationException"
    assert "aws off" in text or "aws env --off" in text


def test_the_recipe_for_real_buckets_keeps_the_key_of_the_front_for_all_but_s3(sdk: AwsClient, tmp_path: Path) -> None:
    page = (ROOT / "docs/users/howto/sagemaker-clients.md").read_text()
    (recipe,) = re.findall(r"```python skip: it needs an account of AWS\n(.*?)```", page, re.DOTALL)
    (tmp_path / "config").write_text("[profile work]\nregion = us-east-1\n")
    (tmp_path / "keys").write_text("[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = x\n")
    files = [str(tmp_path / "config"), str(tmp_path / "keys")]
    ran = sdk.run(
        f"""
import os
del os.environ["AWS_ENDPOINT_URL_S3"]  # as with --s3 aws
os.environ["AWS_CONFIG_FILE"], os.environ["AWS_SHARED_CREDENTIALS_FILE"] = {files}
{recipe}
def found(client):
    key = client._request_signer._credentials.access_key
    return ["127.0.0.1" in client.meta.endpoint_url, key == os.environ["AWS_ACCESS_KEY_ID"], key]
result = {{
    "front": [found(session.sagemaker_client), found(session.boto_session.client("logs"))],
    "s3": [found(session.s3_client), found(session.s3_resource.meta.client)],
}}
"""
    )
    assert [row[:2] for row in ran.result["front"]] == [[True, True]] * 2
    assert ran.result["s3"] == [[False, False, "AKIAWORK"]] * 2

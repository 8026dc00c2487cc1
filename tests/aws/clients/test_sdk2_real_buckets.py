"""SageMaker's Python SDK 2 with ``--s3 aws``: an object store of its own stands where the buckets of AWS are."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import client_packages
import pytest
from aws_client import AwsClient
from conftest import COMMAND, read_variables

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import process
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.servers.object_storage import Bucket, bucket
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["bucket"]
pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]


@pytest.fixture
def hybrid(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsClient]:
    """Provide the SDK and a front that leaves buckets to the store, whose keys the front inherits."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    provide_data_folder(tmp_path / "smx")
    try:
        subprocess.run([*COMMAND, "start", "--s3", "aws"], check=True, timeout=60)
        yield AwsClient(tmp_path, client_packages.install("sdk2", client_packages.SDK), read_variables())
    finally:
        process.stop_front()
        stop_everything()


def test_processors_run_code_that_is_in_real_buckets(hybrid: AwsClient, bucket: Bucket) -> None:
    (hybrid.folder / "src").mkdir()
    (hybrid.folder / "src" / "helper.py").write_text("ANSWER = 42\n", encoding="utf-8")
    (hybrid.folder / "src" / "main.py").write_text(
        "import helper, sys\nprint('answer', helper.ANSWER, sys.argv[1:])\n", encoding="utf-8"
    )
    (hybrid.folder / "one.py").write_text("import sys\nprint('one', sys.argv[1:])\n", encoding="utf-8")
    store = bucket.environment
    ran = hybrid.run(
        f"""
import boto3, sagemaker
from sagemaker.processing import FrameworkProcessor
from sagemaker.sklearn import SKLearn
from sagemaker.sklearn.processing import SKLearnProcessor
work = boto3.Session(aws_access_key_id={store["AWS_ACCESS_KEY_ID"]!r},
                     aws_secret_access_key={store["AWS_SECRET_ACCESS_KEY"]!r}, region_name="us-east-1")
session = sagemaker.Session(default_bucket="bucket")
session.s3_client, session.s3_resource = [
    make("s3", endpoint_url={store["AWS_ENDPOINT_URL"]!r}) for make in (work.client, work.resource)]
named = dict(framework_version="1.2-1", role="Smx", instance_type="ml.m5.large", instance_count=1,
             sagemaker_session=session)
framework = FrameworkProcessor(estimator_cls=SKLearn, **named)
framework.run(code="main.py", source_dir="src", arguments=["--all"])
script = SKLearnProcessor(**named)
script.run(code="one.py", arguments=["--few"])
result = [each.latest_job.describe()["ProcessingJobStatus"] for each in (framework, script)]
"""
    )
    assert ran.result == ["Completed", "Completed"]
    assert "answer 42 ['--all']" in ran.output
    assert "one ['--few']" in ran.output
    read = {key.rpartition("/")[2] for key in bucket.read_keys()}
    assert {"sourcedir.tar.gz", "runproc.sh", "one.py"} <= read

"""AWS's command line 1: waiting, and its high-level commands for S3."""

from __future__ import annotations

import json
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

REQUEST = {
    "TrainingJobName": "six-seconds",
    "RoleArn": "arn:aws:iam::000000000000:role/Smx",
    "AlgorithmSpecification": {"TrainingImage": "sagemaker-scikit-learn:1.2-1-cpu-py3", "TrainingInputMode": "File"},
    "HyperParameters": {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://waited/code.tar.gz"',
    },
    "OutputDataConfig": {"S3OutputPath": "s3://waited/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 600},
}


def aws(client: AwsClient, *words: str) -> subprocess.CompletedProcess[str]:
    return client.command(sys.executable, "-m", "awscli", *words)


def test_waiting_for_an_unknown_job_ends_at_once(aws_cli: AwsClient) -> None:
    done = aws(aws_cli, "sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", "nope")
    assert done.returncode == 255
    assert "ValidationException" in done.stderr


def test_waiting_for_a_job_ends_when_the_job_does(aws_cli: AwsClient) -> None:
    (aws_cli.folder / "train.py").write_text("import time\ntime.sleep(6)\n", encoding="utf-8")
    with tarfile.open(aws_cli.folder / "code.tar.gz", "w:gz") as archive:
        archive.add(aws_cli.folder / "train.py", "train.py")
    (aws_cli.folder / "job.json").write_text(json.dumps(REQUEST), encoding="utf-8")
    for words in (
        ("s3", "mb", "s3://waited"),
        ("s3", "cp", "code.tar.gz", "s3://waited/code.tar.gz"),
        ("sagemaker", "create-training-job", "--cli-input-json", "file://job.json"),
    ):
        done = aws(aws_cli, *words)
        assert done.returncode == 0, done.stderr
    begin = time.monotonic()
    done = aws(aws_cli, "sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", "six-seconds")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < 10, "its next look would come after 120 s"


def test_files_are_copied_listed_and_removed(aws_cli: AwsClient) -> None:
    (aws_cli.folder / "tree" / "deep").mkdir(parents=True)
    (aws_cli.folder / "tree" / "deep" / "a b+ü.txt").write_text("one", encoding="utf-8")
    (aws_cli.folder / "tree" / "two.txt").write_text("two", encoding="utf-8")
    for words in (("mb", "s3://files"), ("sync", "tree", "s3://files/tree"), ("cp", "s3://files/tree/two.txt", "back")):
        done = aws(aws_cli, "s3", *words)
        assert done.returncode == 0, done.stderr
    assert (aws_cli.folder / "back").read_text(encoding="utf-8") == "two"
    listed = aws(aws_cli, "s3", "ls", "--recursive", "s3://files").stdout.split("\n")
    assert [line[31:] for line in listed if line] == ["tree/deep/a b+ü.txt", "tree/two.txt"]
    done = aws(aws_cli, "s3", "rb", "--force", "s3://files")
    assert done.returncode == 0, done.stderr
    assert "files" not in aws(aws_cli, "s3", "ls").stdout

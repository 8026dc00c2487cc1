"""Botocore on a machine of a test world, and a training job that uses it against the front of this machine."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore
import dateutil
import jmespath
import six
import urllib3
from botocore.exceptions import WaiterError
from botocore.session import Session

from jupyter_smx.aws_endpoint import environment, process

if TYPE_CHECKING:
    import pytest

BUCKET = "sagemaker-us-east-1-000000000000"
IMAGE = "sagemaker-scikit-learn:1.2-1-cpu-py3"
CLIENTS = "clients"
"""Folder in the home of a machine with the packages."""
_PACKAGES = (botocore, dateutil, jmespath, urllib3)
_SERVICES = ("s3", "sagemaker")
_SCRIPT = """
import os, sys, time
sys.path.insert(0, {home!r} + "/{clients}")
from botocore.session import Session
session = Session()
s3, sagemaker = (session.create_client(name) for name in ("s3", "sagemaker"))
name, host = os.environ["TRAINING_JOB_NAME"], os.environ["SM_CURRENT_HOST"]
def exchange(word):
    s3.put_object(Bucket={bucket!r}, Key=host + word, Body=word.encode() * 300_000)
    body = s3.get_object(Bucket={bucket!r}, Key=host + word)["Body"].read()
    status = sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
    print(word, len(body), status, flush=True)
print("config", os.path.isfile(os.environ["SAGEMAKER_ADMIN_CONFIG_OVERRIDE"]), flush=True)
exchange("first")
while {gate!r} and not os.path.exists({gate!r}):
    time.sleep(0.01)
exchange("again")
"""


def quiet(_: str) -> None:
    """Report nothing."""


def install(home: Path) -> None:
    """Copy botocore with two services and what it needs into a home, with the bytecode that is there."""
    target = home / CLIENTS
    data = Path(botocore.__file__).parent / "data"

    def ignore(folder: str, names: list[str]) -> list[str]:
        if Path(folder) != data:
            return []
        return [name for name in names if name not in _SERVICES and (data / name).is_dir()]

    for package in _PACKAGES:
        found = Path(str(package.__file__)).parent
        shutil.copytree(found, target / found.name, ignore=ignore)
    shutil.copy(six.__file__, target)


def remove(home: Path) -> None:
    """Delete what :func:`install` has copied."""
    shutil.rmtree(home / CLIENTS, ignore_errors=True)


def script(home: str, gate: str = "") -> str:
    """Return a script that exchanges an object twice, before and after its gate, and describes its job."""
    return _SCRIPT.format(home=home, clients=CLIENTS, bucket=BUCKET, gate=gate)


class Front:
    """The front of a data folder, and clients of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def start(self) -> None:
        """Start the front, and let clients of this process find it."""
        front = process.start_front(quiet)
        for name, value in environment.client_variables(front.endpoint, Path("sdk.yaml"), {}).items():
            if value is not None:
                self._monkeypatch.setenv(name, value)
        session = Session()
        self.sagemaker, self.s3, self.logs = (session.create_client(name) for name in ("sagemaker", "s3", "logs"))

    def create(self, name: str, text: str, hosts: int = 1) -> None:
        """Create a training job that runs a script on each of its hosts."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key=f"{name}.tar.gz", Body=packed.getvalue())
        parameters = {"sagemaker_program": "train.py", "sagemaker_submit_directory": f"s3://{BUCKET}/{name}.tar.gz"}
        request: dict[str, Any] = {
            "TrainingJobName": name,
            "RoleArn": "arn:aws:iam::000000000000:role/Smx",
            "AlgorithmSpecification": {
                "TrainingImage": "sagemaker-scikit-learn:1.2-1-cpu-py3",
                "TrainingInputMode": "File",
            },
            "HyperParameters": {key: json.dumps(value) for key, value in parameters.items()},
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 5},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }
        self.sagemaker.create_training_job(**request)

    def wait(self, name: str) -> dict[str, Any]:
        """Wait for the end of a job, whatever it is; return its description."""
        waiter = self.sagemaker.get_waiter("training_job_completed_or_stopped")
        with contextlib.suppress(WaiterError):
            waiter.wait(TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        found: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return found

    def body(self, key: str) -> bytes:
        """Return an object."""
        found: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return found

    def log(self, name: str) -> list[str]:
        """Return the lines of a job's hosts."""
        group = "/aws/sagemaker/TrainingJobs"
        events = self.logs.filter_log_events(logGroupName=group, logStreamNamePrefix=f"{name}/")["events"]
        return [event["message"] for event in events]

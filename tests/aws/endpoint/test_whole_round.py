"""Botocore's clients against the front as a process, a real controller, and the local engine: a job from end to end."""

from __future__ import annotations

import io
import os
import signal
import tarfile
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from jupyter_smx.aws_endpoint import environment, process
from jupyter_smx.aws_endpoint.endpoint_file import read_endpoint
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.eventually import eventually_blocking
from jupyter_smx.testing.teardown import stop_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes

SECRET_FILES = {"aws.json"}
"""Files of the data folder that have the key of the front."""
BUCKET = "sagemaker-us-east-1-000000000000"
ROLE = "arn:aws:iam::000000000000:role/Smx"
SCRIPT = """
import os, pathlib, time
print("begin", flush=True)
gate = os.environ.get("GATE")
while gate and not pathlib.Path(gate).exists():
    time.sleep(0.01)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text("a model")
from botocore.session import Session
Session().create_client("s3").put_object(Bucket=os.environ["BUCKET"], Key="of the job", Body=b"by its own client")
print("accuracy=0.5;")
print("end", flush=True)
"""


def quiet(_: str) -> None:
    """Report nothing."""


class Clients:
    """Clients of botocore with the variables of the front."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        provide_data_folder(folder)
        front = process.start_front(quiet)
        variables = environment.client_variables(front.endpoint, folder / "sdk.yaml", {})
        for name, value in variables.items():
            if value is not None:
                monkeypatch.setenv(name, value)
        self.sagemaker, self.s3 = (Session().create_client(name) for name in ("sagemaker", "s3"))
        self.s3.create_bucket(Bucket=BUCKET)

    def create(self, name: str, **environment: str) -> str:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = len(SCRIPT)
            archive.addfile(member, io.BytesIO(SCRIPT.encode()))
        self.s3.put_object(Bucket=BUCKET, Key="code/sourcedir.tar.gz", Body=packed.getvalue())
        found = self.sagemaker.create_training_job(
            TrainingJobName=name,
            RoleArn=ROLE,
            AlgorithmSpecification={
                "TrainingImage": "sagemaker-scikit-learn:1.2-1-cpu-py3",
                "TrainingInputMode": "File",
                "MetricDefinitions": [{"Name": "accuracy", "Regex": "accuracy=([0-9.]+);"}],
            },
            HyperParameters={
                "sagemaker_program": '"train.py"',
                "sagemaker_submit_directory": f'"s3://{BUCKET}/code/sourcedir.tar.gz"',
            },
            OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 5},
            StoppingCondition={"MaxRuntimeInSeconds": 600},
            Environment={"BUCKET": BUCKET, **environment},
        )
        arn: str = found["TrainingJobArn"]
        return arn

    def status(self, name: str) -> str:
        found: str = self.sagemaker.describe_training_job(TrainingJobName=name)["SecondaryStatus"]
        return found

    def delete_all(self) -> None:
        """Delete all jobs, which have ended, and all objects: the names are free again."""
        for row in self.sagemaker.list_training_jobs()["TrainingJobSummaries"]:
            self.sagemaker.delete_training_job(TrainingJobName=row["TrainingJobName"])
        for row in self.s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
            self.s3.delete_object(Bucket=BUCKET, Key=row["Key"])


@pytest.fixture
def own_clients(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Clients:
    """Give clients of a front that the test may kill. The first request starts a controller."""
    return Clients(data_folder, monkeypatch)


@pytest.fixture(scope="module")
def _clients_of_module(shared_data_folder: Path) -> Iterator[Clients]:
    with pytest.MonkeyPatch.context() as patch:
        yield Clients(shared_data_folder, patch)


@pytest.fixture
def clients(_clients_of_module: Clients) -> Iterator[Clients]:
    """Give clients of a front that serves several tests of the file; jobs end with the test."""
    yield _clients_of_module
    stop_hosts()
    _clients_of_module.delete_all()


def test_a_job_is_created_awaited_and_its_model_is_an_object(clients: Clients) -> None:
    assert clients.create("round-1") == "arn:aws:sagemaker:us-east-1:000000000000:training-job/round-1"
    clients.sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="round-1")
    found = clients.sagemaker.describe_training_job(TrainingJobName="round-1")
    assert found["TrainingJobStatus"] == "Completed"
    artefact = found["ModelArtifacts"]["S3ModelArtifacts"]
    assert artefact == f"s3://{BUCKET}/out/round-1/output/model.tar.gz"
    body = clients.s3.get_object(Bucket=BUCKET, Key=artefact.partition(f"{BUCKET}/")[2])["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert archive.getnames().count("model.txt") == 1
    assert found["Environment"] == {"BUCKET": BUCKET}
    assert clients.s3.get_object(Bucket=BUCKET, Key="of the job")["Body"].read() == b"by its own client"
    logs = Session().create_client("logs")
    group = "/aws/sagemaker/TrainingJobs"
    streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix="round-1/")["logStreams"]
    assert len(streams) == 1
    events = logs.get_log_events(logGroupName=group, logStreamName=streams[0]["logStreamName"], startFromHead=True)[
        "events"
    ]
    assert [event["message"] for event in events if event["message"] in ("begin", "end")] == ["begin", "end"]
    times = [event["timestamp"] for event in events]
    assert times == sorted(times)
    assert found["CreationTime"].timestamp() * 1000 < times[0] < found["TrainingEndTime"].timestamp() * 1000 + 2000
    points = (
        Session()
        .create_client("cloudwatch")
        .get_metric_statistics(
            Namespace=group,
            MetricName="accuracy",
            Dimensions=[{"Name": "TrainingJobName", "Value": "round-1"}],
            StartTime=found["TrainingStartTime"] - timedelta(minutes=2),
            EndTime=found["TrainingEndTime"] + timedelta(minutes=2),
            Period=60,
            Statistics=["Average"],
        )["Datapoints"]
    )
    assert [point["Average"] for point in points] == [0.5]
    names = [job["TrainingJobName"] for job in clients.sagemaker.list_training_jobs()["TrainingJobSummaries"]]
    assert names == ["round-1"]
    with pytest.raises(ClientError, match="The request was rejected because the training job is in status Completed"):
        clients.sagemaker.stop_training_job(TrainingJobName="round-1")


def test_a_front_that_is_killed_while_a_job_runs_goes_on_with_it(own_clients: Clients, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    own_clients.create("round-2", GATE=str(gate))
    eventually_blocking(lambda: own_clients.status("round-2") == "Training")
    running = process.find_front()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    eventually_blocking(lambda: process.find_front() is None)
    process.start_front(quiet)
    assert own_clients.status("round-2") == "Training"
    with pytest.raises(own_clients.sagemaker.exceptions.ResourceInUse):
        own_clients.create("round-2")
    gate.touch()
    own_clients.sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="round-2")
    assert own_clients.status("round-2") == "Completed"


def test_a_running_job_is_stopped(clients: Clients, tmp_path: Path) -> None:
    clients.create("round-3", GATE=str(tmp_path / "never"))
    eventually_blocking(lambda: clients.status("round-3") == "Training")
    clients.sagemaker.stop_training_job(TrainingJobName="round-3")
    clients.sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="round-3")
    assert clients.status("round-3") == "Stopped"


def files_with(secret: str, folder: Path) -> set[str]:
    """Return the files of a folder that have a text in them."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix() for path in found if secret.encode() in path.read_bytes()}


def test_only_its_own_file_has_the_secret_of_the_front_also_while_a_job_uses_it(
    clients: Clients, shared_data_folder: Path, tmp_path: Path
) -> None:
    endpoint = read_endpoint()
    assert endpoint is not None
    gate = tmp_path / "gate"
    clients.create("round-4", GATE=str(gate))
    eventually_blocking(lambda: clients.status("round-4") == "Training")
    assert files_with("round-4", shared_data_folder) > {"smx.sqlite-wal"}
    assert files_with(endpoint.secret_key, shared_data_folder) == SECRET_FILES
    gate.touch()
    clients.sagemaker.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="round-4")
    assert clients.status("round-4") == "Completed"
    assert clients.s3.get_object(Bucket=BUCKET, Key="of the job")["Body"].read() == b"by its own client"
    assert files_with(endpoint.secret_key, shared_data_folder) == SECRET_FILES

"""Jobs that the front for clients of AWS starts in containers reach its buckets with their own clients."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore
import dateutil
import jmespath
import pytest
import six
import urllib3
from botocore.session import Session
from containers import Containers
from world import PATIENCE, surround

from jupyter_smx.aws_endpoint import process
from jupyter_smx.testing.docker import images
from jupyter_smx.testing.docker.image_layer import Layer
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.aws_endpoint.endpoint_file import Endpoint
    from jupyter_smx.testing.docker.fixtures import Docker

pytestmark = [pytest.mark.heavy("docker"), pytest.mark.timeout(180)]

BUCKET = "buckets-of-containers"
PACKAGES = "/opt/packages"
IMAGE = images.TestImage(
    "botocore",
    "has this environment's botocore with the models of two services",
    ("programs", "python", "botocore"),
    {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", f"PYTHONPATH={PACKAGES}"]},
)
CONFIG = """\
c.ControllerApp.grace = 0.5
c.DockerEngine.grace = 0.5
c.SmxAws.engine = "docker"
c.SmxAws.hold = 0.0
"""
SCRIPT = """
import os
from botocore.session import Session
print(open("/opt/ml/input/data/train/a.csv").read(), os.path.exists(os.environ["SAGEMAKER_ADMIN_CONFIG_OVERRIDE"]))
session = Session()
print(session.create_client("sts").get_caller_identity()["Account"], os.getuid())
s3 = session.create_client("s3")
print([row["Key"] for row in s3.list_objects_v2(Bucket=os.environ["BUCKET"], Prefix="data/")["Contents"]])
body = s3.get_object(Bucket=os.environ["BUCKET"], Key="data/large")["Body"].read()
s3.put_object(Bucket=os.environ["BUCKET"], Key=os.environ["RESULT"], Body=body[::-1])
open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("a model")
"""
CLOSED_SCRIPT = """
import os
print(sorted(name for name in os.environ if name.startswith("AWS_ENDPOINT")), os.path.exists("/run/smx-aws"))
"""
LARGE = bytes(range(256)) * 8192


def botocore_layer() -> Layer:
    """Return the packages of a client of S3 and STS."""
    layer = Layer()
    for package in (botocore, dateutil, jmespath, urllib3):
        top = Path(str(package.__file__)).parent
        for path in top.rglob("*"):
            data = path.relative_to(top).parts
            is_other = data[0] == "data" and len(data) > 2 and data[1] not in {"s3", "sts"}
            if path.is_file() and path.suffix != ".pyc" and not is_other:
                layer.file(f"{PACKAGES}/{top.name}/{path.relative_to(top).as_posix()}", path)
    layer.file(f"{PACKAGES}/six.py", Path(six.__file__))
    return layer


def quiet(_: str) -> None:
    """Report nothing."""


class Clients:
    """Clients of botocore with the key of the front."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.sagemaker, self.s3 = self.client("sagemaker"), self.client("s3")

    def client(self, service: str) -> Any:
        return Session().create_client(
            service,
            region_name="us-east-1",
            endpoint_url=self._endpoint.url,
            aws_access_key_id=self._endpoint.access_key,
            aws_secret_access_key=self._endpoint.secret_key,
        )

    def create(self, name: str, script: str = SCRIPT, **fields: Any) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = len(script)
            archive.addfile(member, io.BytesIO(script.encode()))
        self.s3.put_object(Bucket=BUCKET, Key=f"code/{name}.tar.gz", Body=packed.getvalue())
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/data"}
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            RoleArn="arn:aws:iam::000000000000:role/Smx",
            AlgorithmSpecification={"TrainingImage": IMAGE.name, "TrainingInputMode": "File"},
            HyperParameters={
                "sagemaker_program": '"train.py"',
                "sagemaker_submit_directory": json.dumps(f"s3://{BUCKET}/code/{name}.tar.gz"),
            },
            InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": source}}],
            OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"},
            ResourceConfig={
                "InstanceType": "ml.m5.large",
                "InstanceCount": 1,
                "VolumeSizeInGB": 5,
                "KeepAlivePeriodInSeconds": 600,
            },
            StoppingCondition={"MaxRuntimeInSeconds": 600},
            Environment={"BUCKET": BUCKET, "RESULT": f"results/{name}"},
            **fields,
        )

    def end_of(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def is_over() -> bool:
            found.update(self.sagemaker.describe_training_job(TrainingJobName=name))
            return found["TrainingJobStatus"] not in {"InProgress", "Stopping"}

        eventually_blocking(is_over, f"{name} ends", within=PATIENCE)
        return found


@pytest.fixture
def containers(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containers]:
    images.load(docker.client, [IMAGE], {"botocore": botocore_layer()})
    surround(monkeypatch, tmp_path, CONFIG, tmp_path / "smx")
    world = Containers(tmp_path, docker)
    try:
        yield world
    finally:
        process.stop_front()
        world.close()


def test_a_job_in_a_container_reads_and_writes_buckets_also_of_a_front_that_started_again(
    containers: Containers,
) -> None:
    clients = Clients(process.start_front(quiet).endpoint)
    clients.s3.create_bucket(Bucket=BUCKET)
    clients.s3.put_object(Bucket=BUCKET, Key="data/a.csv", Body=b"a,b")
    clients.s3.put_object(Bucket=BUCKET, Key="data/large", Body=LARGE)
    for name in ("first", "second"):
        clients.create(name)
        found = clients.end_of(name)
        job = containers.client.job(name)
        log = containers.client.log(job.id, "", 0).data.decode()
        assert (found["TrainingJobStatus"], found.get("FailureReason")) == ("Completed", None), log
        assert "a,b True" in log
        assert "000000000000 " in log
        assert "['data/a.csv', 'data/large']" in log
        assert clients.s3.get_object(Bucket=BUCKET, Key=f"results/{name}")["Body"].read() == LARGE[::-1]
        assert clients.s3.head_object(Bucket=BUCKET, Key=f"out/{name}/output/model.tar.gz")["ContentLength"]
        process.stop_front()
        process.start_front(quiet)
    assert containers.client.job("first").cluster == containers.client.job("second").cluster
    clients.create("closed", CLOSED_SCRIPT, EnableNetworkIsolation=True)
    assert clients.end_of("closed")["TrainingJobStatus"] == "Completed"
    assert "[] False" in containers.client.log(containers.client.job("closed").id, "", 0).data.decode()

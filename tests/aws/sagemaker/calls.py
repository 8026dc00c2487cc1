"""Operations called as boto3 calls them, checked by the service's own model; requests as SDK 2 sends them."""

from __future__ import annotations

import functools
import io
import itertools
import json
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.validate import ParamValidator

from jupyter_smx.aws.service import AwsError, Caller, Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from botocore.model import ServiceModel

    from jupyter_smx.aws.controller_client import ControllerClient

BUCKET = "sagemaker-us-east-1-000000000000"
ROLE = "arn:aws:iam::000000000000:role/Smx"
SKLEARN = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3"
WAITER = "Boto3/1.44.8 md/Botocore#1.44.8 ua/2.1 os/linux lang/python#3.11.0 m/E,B,Z cfg/retry-mode#standard"
SDK_2 = "Boto3/1.44.8 ua/2.1 m/Z,D lib/AWS-SageMaker-Python-SDK#2.257.7"
FINAL = ("Completed", "Failed", "Stopped")


@functools.cache
def model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("sagemaker")


def archive(files: dict[str, str], at: int) -> bytes:
    """Return a source archive as the SDK makes it: each one has another time in it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(text), at
            packed.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


class Calls:
    """Calls operations of the service; ``bucket`` is the folder of the default bucket."""

    def __init__(self, new_service: Callable[[], Service], controller: ControllerClient, bucket: Path) -> None:
        self.new_service = new_service
        self.service = new_service()
        self.controller = controller
        self.bucket = bucket
        self.requests = bucket.parents[1] / "aws" / "requests"
        self._numbers = itertools.count(1)

    async def __call__(self, operation: str, *, agent: str = "Boto3/1.44.8", call: str = "", **members: Any) -> Any:
        shapes = model().operation_model(operation)
        check(members, shapes.input_shape)
        caller = Caller("SMX", "us-east-1", agent, call or f"call-{next(self._numbers)}")
        answer = await self.service.operations[operation](members, caller)
        if shapes.output_shape is not None:
            # The model requires members that the service leaves out until they exist.
            check(
                {"ModelArtifacts": {"S3ModelArtifacts": ""}, **answer}
                if operation == "DescribeTrainingJob"
                else answer,
                shapes.output_shape,
            )
        return answer

    async def error(self, operation: str, **members: Any) -> tuple[str, str]:
        """Return the code and the text of an operation that must fail."""
        try:
            answer = await self(operation, **members)
        except AwsError as error:
            return error.code, error.message
        raise AssertionError(answer)

    def put(self, key: str, content: bytes | str) -> str:
        """Write an object, and return its URI."""
        path = self.bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return f"s3://{BUCKET}/{key}"

    def training(self, name: str, script: str, **members: Any) -> dict[str, Any]:
        """Return a request of an estimator with a script."""
        code = self.put(f"{name}/source/sourcedir.tar.gz", archive({"train.py": script}, next(self._numbers)))
        own = members.pop("HyperParameters", {})
        return training_request(name, code) | {"HyperParameters": sdk_parameters(name, code) | own} | members

    async def train(self, name: str, script: str, **members: Any) -> Any:
        """Create a training job, and describe it at its end."""
        await self("CreateTrainingJob", **self.training(name, script, **members))
        return await self.end(name)

    async def end(self, name: str) -> Any:
        """Describe a training job at its end, as a waiter does."""
        found = await self("DescribeTrainingJob", TrainingJobName=name, agent=WAITER)
        assert found["TrainingJobStatus"] in FINAL
        return found

    async def delete_all(self) -> None:
        """Delete all jobs, which have ended, and empty the bucket: the names are free again."""
        for kind in ("Training", "Processing"):
            for row in (await self(f"List{kind}Jobs", MaxResults=100))[f"{kind}JobSummaries"]:
                await self(f"Delete{kind}Job", **{f"{kind}JobName": row[f"{kind}JobName"]})
        for path in self.bucket.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def check(members: dict[str, Any], shape: Any) -> None:
    report = ParamValidator().validate(members, shape)
    assert not report.has_errors(), report.generate_report()


def sdk_parameters(name: str, code: str) -> dict[str, str]:
    return {
        "sagemaker_submit_directory": json.dumps(code),
        "sagemaker_program": '"train.py"',
        "sagemaker_container_log_level": "20",
        "sagemaker_job_name": json.dumps(name),
        "sagemaker_region": '"us-east-1"',
    }


def training_request(name: str, code: str) -> dict[str, Any]:
    """Return what ``SKLearn(...).fit()`` of SDK 2.257.7 sends."""
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": SKLEARN,
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": "accuracy", "Regex": "accuracy=([0-9.]+);"}],
        },
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/"},
        "ResourceConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
        "HyperParameters": sdk_parameters(name, code),
        "DebugHookConfig": {"S3OutputPath": f"s3://{BUCKET}/", "CollectionConfigurations": []},
        "ProfilerConfig": {"S3OutputPath": f"s3://{BUCKET}/", "DisableProfiler": False},
    }


def an_input(name: str, uri: str, path: str) -> dict[str, Any]:
    s3 = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    more = {"S3DataDistributionType": "FullyReplicated", "S3CompressionType": "None"}
    return {"InputName": name, "AppManaged": False, "S3Input": s3 | more}


def processing_request(
    name: str, entry_point: list[str], inputs: list[dict[str, Any]], **members: Any
) -> dict[str, Any]:
    output = {"S3Uri": f"s3://{BUCKET}/{name}/output/out", "LocalPath": "/opt/ml/processing/output"}
    cluster = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30}
    return {
        "ProcessingJobName": name,
        "ProcessingInputs": inputs,
        "ProcessingOutputConfig": {
            "Outputs": [
                {"OutputName": "out", "AppManaged": False, "S3Output": {**output, "S3UploadMode": "EndOfJob"}},
            ]
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "AppSpecification": {"ImageUri": SKLEARN, "ContainerEntrypoint": entry_point},
        "RoleArn": ROLE,
        **members,
    }


def scripted(calls: Calls, name: str, script: str, *words: str) -> dict[str, Any]:
    """Return what ``SKLearnProcessor.run`` sends."""
    code = calls.put(f"{name}/input/code/prepare.py", script)
    data = calls.put(f"{name}/input/input-1/a.csv", "1,2")
    inputs = [
        an_input("input-1", data.removesuffix("/a.csv"), "/opt/ml/processing/input/data"),
        an_input("code", code, "/opt/ml/processing/input/code"),
    ]
    made = processing_request(name, ["python3", "/opt/ml/processing/input/code/prepare.py"], inputs)
    if words:
        made["AppSpecification"]["ContainerArguments"] = list(words)
    return made

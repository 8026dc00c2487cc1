"""Complete the description of a job of which no request is stored: a job of a notebook, or a rerun. Pure.

Clients read members of the request without looking whether they are there, as ``attach`` of SDK 2 does. Those that no
record has are what the SDK would send by default; files in buckets of this machine have their S3 URIs.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.aws.sagemaker.requests.instance_types import LOCAL
from jupyter_smx.aws.sagemaker.requests.s3_paths import bucket_uri
from jupyter_smx.aws.sagemaker.requests.training import DIRECTORY, PROGRAM
from jupyter_smx.aws_endpoint.sdk_config import ROLE_ARN, default_bucket
from jupyter_smx.kernel.sagemaker.describe import MODEL
from jupyter_smx.model.redaction import redact_text
from jupyter_smx.model.request_texts import is_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.records.job import Job

_SDK_VOLUME = 30
"""GB that the SDK requests where a script names no volume."""
_SDK_TYPE = "ml.m5.xlarge"
"""Type that stands for ``local``, which is none of the API, and which the SDK takes for its own local mode."""
_CELL, _CELL_SCRIPT = "cell.py", "train.py"
"""Code of a cell among the job's files, and its name in the job."""
_WITH_PLACES = (
    *("InputDataConfig", "OutputDataConfig", "ModelArtifacts", "CheckpointConfig"),
    *("ProcessingInputs", "ProcessingOutputConfig"),
)
"""Members that have URIs of files."""


class RecordPlaces(Struct, frozen=True):
    """What a description depends on: the region, the parent of the jobs' folders, and the folder of the buckets."""

    region: str
    jobs: Path
    s3_root: Path | None = None


def complete_training(found: Mapping[str, Any], job: Job, here: RecordPlaces) -> dict[str, Any]:
    """Return the description of a training job with each member that a request of the SDK has."""
    answer = put_bucket_uris(found, here.s3_root)
    answer["RoleArn"] = answer.get("RoleArn") or ROLE_ARN
    answer["AlgorithmSpecification"] = {"TrainingImage": _image(job), **answer["AlgorithmSpecification"]}
    answer["ResourceConfig"] = _with_api_types(answer["ResourceConfig"])
    if not job.spec.is_only_command():
        answer["HyperParameters"] = _sdk_parameters(answer["HyperParameters"], job, here)
    model = _model_in_bucket(job, here.s3_root)
    if model:
        answer["ModelArtifacts"] = {"S3ModelArtifacts": model}
    output = _output_path(model, job, here)
    if output:
        answer["OutputDataConfig"] = {**answer["OutputDataConfig"], "S3OutputPath": output}
    return answer


def put_bucket_uris(found: Mapping[str, Any], s3_root: Path | None) -> dict[str, Any]:
    """Return a description in which files in buckets of this machine have S3 URIs."""

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: put(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [put(inner) for inner in value]
        return bucket_uri(value, s3_root) if isinstance(value, str) and value.startswith("file://") else value

    return {name: put(value) if name in _WITH_PLACES else value for name, value in found.items()}


def _image(job: Job) -> str:
    """Return the name that the front has for a Python without an image."""
    version = job.spec.python_version
    return f"smx.local/python:{version}" if version else "smx.local/python"


def _with_api_types(resources: Mapping[str, Any]) -> dict[str, Any]:
    groups = [_with_api_type(group) for group in resources.get("InstanceGroups") or ()]
    hosts = {**resources, "InstanceGroups": groups} if groups else _with_api_type(resources)
    return {"VolumeSizeInGB": _SDK_VOLUME, **hosts}


def _with_api_type(hosts: Mapping[str, Any]) -> dict[str, Any]:
    return {**hosts, "InstanceType": _SDK_TYPE} if hosts["InstanceType"] == LOCAL else dict(hosts)


def _sdk_parameters(own: Mapping[str, str], job: Job, here: RecordPlaces) -> dict[str, str]:
    """Return hyperparameters as a framework's estimator sends them: JSON, with those that name the code."""
    archive = "source.tar.gz" if job.spec.source_dir else _CELL
    added = {
        DIRECTORY: f"file://{here.jobs / job.id / archive}",
        PROGRAM: job.spec.entry_point or _CELL_SCRIPT,
        "sagemaker_container_log_level": logging.INFO,
        "sagemaker_job_name": job.name,
        "sagemaker_region": here.region,
    }
    texts = {name: json.dumps(value) for name, value in added.items()}
    return {**texts, **{name: value if is_json(value) else json.dumps(value) for name, value in own.items()}}


def _model_in_bucket(job: Job, s3_root: Path | None) -> str:
    """Return the S3 URI of the model, if the job has a destination for it in a bucket; else ""."""
    outputs = job.spec.fill_job_name(job.name).outputs
    place = next((output.destination for output in outputs if output.name == "model"), "")
    top = redact_text(bucket_uri(place, s3_root)).rstrip("/")
    if not top.startswith("s3://"):
        return ""
    if job.spec.disable_output_compression:
        return f"{top}/"
    return top if top.endswith((".tar.gz", ".tgz")) else f"{top}/{MODEL}"


def _output_path(model: str, job: Job, here: RecordPlaces) -> str:
    """Return the prefix below which the SDK puts models: that of this one, or the default bucket; "" if unknown."""
    if model:
        folder = model.rstrip("/").rpartition("/")[0]
        return folder.removesuffix(f"/{job.name}/output")
    return f"s3://{default_bucket(here.region)}/" if here.s3_root is not None else ""

"""The configuration file of SageMaker's SDK: what the SDK would otherwise ask of AWS by an address of its own."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.aws_endpoint.environment import S3Place

ACCOUNT = "000000000000"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/Smx"
_ONLY_OWNER = 0o600


def default_bucket(region: str) -> str:
    """Return the bucket that the SDK uses where a script names none."""
    return f"sagemaker-{region}-{ACCOUNT}"


def format_sdk_config(region: str, s3: S3Place, python: tuple[int, int]) -> str:
    """Return the text of the file: the role, no telemetry, and, if buckets are local, the default bucket.

    Without a default bucket in it, the SDK would ask STS by the address of the region.
    """
    bucket = f"      Session: {{DefaultS3Bucket: {default_bucket(region)}}}\n" if s3 == "local" else ""
    image = f"smx.local/python:{python[0]}.{python[1]}"
    return (
        "SchemaVersion: '1.0'\n"
        "SageMaker:\n"
        "  PythonSDK:\n"
        "    Modules:\n"
        "      TelemetryOptOut: true\n"
        f"{bucket}"
        f"      RemoteFunction: {{ImageUri: '{image}', RoleArn: '{ROLE_ARN}', InstanceType: ml.m5.xlarge}}\n"
        f"  TrainingJob: {{RoleArn: '{ROLE_ARN}'}}\n"
        f"  ProcessingJob: {{RoleArn: '{ROLE_ARN}'}}\n"
    )


def write_sdk_config(region: str, s3: S3Place, folder: Path | None = None, mode: int = _ONLY_OWNER) -> Path:
    """Write the file of a region and return its path; it has no secret.

    :raises UnavailableError: it cannot be written.
    """
    folder = folder or controller_launch.chosen_data_dir() / "aws"
    # The region is a word of the user's environment.
    name = "".join(letter for letter in region if letter.isalnum() or letter == "-")
    path = folder / f"sagemaker-{name}-{s3}.yaml"
    text = format_sdk_config(name, s3, sys.version_info[:2])
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return path
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.chmod(mode)
        draft.replace(path)
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be written: {error.strerror}.",
            field="data_dir",
            value=folder,
            rule="SageMaker's SDK reads the role and the bucket of local jobs from it.",
            cure=f"Make {folder} writable, or free some space.",
        ) from error
    return path

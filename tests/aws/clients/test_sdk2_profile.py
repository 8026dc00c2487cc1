"""SageMaker's Python SDK 2 with a profile and the variables that ``jupyter smx aws profile`` prints, and no others."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]


def profile_variables(config: Path, printed: str) -> dict[str, str]:
    """Write the profile, and return the variables of a shell that runs the printed line."""
    done = subprocess.run(
        ["/bin/bash", "-c", f"{printed}\nenv -0"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/bin:/usr/bin"},
    )
    found = dict(item.split("=", 1) for item in done.stdout.split("\0") if item)
    return {name: value for name, value in found.items() if name.startswith(("AWS_", "SAGEMAKER_"))} | {
        "AWS_CONFIG_FILE": str(config)
    }


def test_an_estimator_without_a_role_trains_with_a_profile(sdk: AwsClient, monkeypatch: pytest.MonkeyPatch) -> None:
    config = sdk.folder / "config"
    config.write_text("[default]\nregion = eu-west-1\n", encoding="utf-8")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    done = subprocess.run(
        [*COMMAND, "profile", "smx", "--json"], capture_output=True, text=True, check=True, timeout=60
    )
    line = next(line for line in json.loads(done.stdout)["message"].splitlines() if line.startswith("export "))
    ran = type(sdk)(sdk.folder, sdk.packages, profile_variables(config, line)).run(
        """
import sagemaker
from sagemaker.sklearn import SKLearn
made = SKLearn(entry_point="train.py", instance_type="ml.m5.large", framework_version="1.2-1")
made.fit(logs="None")
arn = made.sagemaker_session.describe_training_job(made.latest_training_job.name)["TrainingJobArn"]
result = [sagemaker.Session().default_bucket(), made.model_data, arn]
"""
    )
    bucket, model, arn = ran.result
    assert bucket == "sagemaker-eu-west-1-000000000000"
    assert model.startswith(f"s3://{bucket}/")
    assert arn.startswith("arn:aws:sagemaker:eu-west-1:000000000000:training-job/")
    assert ran.names == []

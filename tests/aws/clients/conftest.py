"""One front with one controller for a whole file, and the clients of AWS in the versions that are supported."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import client_packages
import pytest
from aws_client import AwsClient

from jupyter_smx import controller_launch
from jupyter_smx.aws_endpoint import process
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = (sys.executable, "-m", "jupyter_smx.cli", "aws")

TRAIN = """
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--fail", default="")
words, _ = parser.parse_known_args()
print("first line")
print("second line")
print("accuracy=0.75;", flush=True)
if words.fail:
    raise ValueError(words.fail)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.json"), "w") as file:
    json.dump({"epochs": words.epochs}, file)
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Provide the variables that lead clients to a front, which ends with the file."""
    folder = tmp_path_factory.mktemp("aws")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder / "smx"))
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, str(folder / name))
        provide_data_folder(folder / "smx")
        try:
            with closing(autostart.client()) as client:
                client.pools()  # starts the controller, which the first test would leave otherwise
            yield read_variables()
        finally:
            process.stop_front()
            stop_everything()


def read_variables() -> dict[str, str]:
    """Start the front, as a shell does, and return what it prints."""
    done = subprocess.run([*COMMAND, "env", "--shell", "json"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return {name: value for name, value in json.loads(done.stdout).items() if value is not None}


@pytest.fixture
def sdk(tmp_path: Path, variables: dict[str, str]) -> AwsClient:
    """Provide SageMaker's Python SDK 2 beside a script ``train.py``."""
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return AwsClient(tmp_path, client_packages.install("sdk2", client_packages.SDK), variables)


@pytest.fixture(params=["old", "new"])
def boto3(request: pytest.FixtureRequest, tmp_path: Path, variables: dict[str, str]) -> AwsClient:
    """Provide the oldest and the newest boto3 that is supported."""
    packages = client_packages.OLD_BOTO3 if request.param == "old" else client_packages.NEW_BOTO3
    return AwsClient(tmp_path, client_packages.install(f"boto3-{request.param}", packages), variables)


@pytest.fixture
def aws_cli(tmp_path: Path, variables: dict[str, str]) -> AwsClient:
    """Provide AWS's command line 1."""
    return AwsClient(tmp_path, client_packages.install("cli", client_packages.CLI), variables)

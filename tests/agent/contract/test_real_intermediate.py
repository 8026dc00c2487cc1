"""Where files of ``/opt/ml/output/intermediate`` go, beside where the real ``sagemaker-training`` brings them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.contract import scriptmode, training_toolkit
from jupyter_smx.agent.system.files.host_folder import SKELETON

if TYPE_CHECKING:
    from pathlib import Path

    from real_toolkit import RealPackages

# Lets the toolkit begin as it does before a script, and tells where it would upload to.
BEGIN = """
import json, sys
from sagemaker_training import environment, intermediate_output
seen = []
class Process:
    def __init__(self, target, args):
        seen.append(["s3://" + args[3]["bucket"] + "/" + args[3]["key_prefix"]])
    def start(self):
        pass
intermediate_output.boto3.client = lambda *_, **__: None
intermediate_output.s3transfer.S3Transfer = lambda _client: None
intermediate_output.multiprocessing.Process = Process
place = environment.read_hyperparameters().get("sagemaker_s3_output")
intermediate_output.start_sync(place, "us-east-1")
print("SEEN" + json.dumps(seen))
"""


def theirs(packages: RealPackages, folder: Path, given: dict[str, str]) -> list[list[str]]:
    (folder / "input" / "config").mkdir(parents=True, exist_ok=True)
    (folder / "input" / "config" / "hyperparameters.json").write_text(json.dumps(given))
    for name in ("inputdataconfig.json", "resourceconfig.json"):
        content = {"current_host": "algo-1", "hosts": ["algo-1"]} if name.startswith("r") else {}
        (folder / "input" / "config" / name).write_text(json.dumps(content))
    done = subprocess.run(
        [str(packages.python), "-c", BEGIN],
        env={**packages.environment(), "SAGEMAKER_BASE_DIR": str(folder), "TRAINING_JOB_NAME": "job-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout.partition("SEEN")[2])
    return found


def ours(given: dict[str, str], **more: Any) -> str:
    wish = {"name": "job-1", "source": "pass", "hyperparameters": given, **more}
    return training_toolkit.intermediate_destination(scriptmode.complete(wish))


@pytest.mark.heavy("toolkits")
@pytest.mark.parametrize(
    "place", ["s3://bucket", "s3://bucket/", "s3://bucket/a/b", "s3://bucket/a/", '"s3://bucket/a"', '""', "file:///a"]
)
def test_files_go_where_the_toolkit_brings_them(real_packages: RealPackages, tmp_path: Path, place: str) -> None:
    given = {"sagemaker_s3_output": place}
    found = theirs(real_packages, tmp_path, given)
    assert found == ([[ours(given)]] if ours(given) else [])
    assert bool(found) == ("bucket" in place)


@pytest.mark.heavy("toolkits")
def test_the_toolkit_leaves_to_us_what_is_there_already(real_packages: RealPackages, tmp_path: Path) -> None:
    assert training_toolkit.INTERMEDIATE_FOLDER in SKELETON
    (tmp_path / training_toolkit.INTERMEDIATE_FOLDER).mkdir(parents=True)
    assert theirs(real_packages, tmp_path, {"sagemaker_s3_output": "s3://bucket"}) == []


@pytest.mark.parametrize("more", [{"kind": "process"}, {"contract": "v3"}, {"hyperparameters": {}}])
def test_a_job_that_the_toolkit_does_not_start_has_no_such_place(more: dict[str, Any]) -> None:
    assert ours({"sagemaker_s3_output": "s3://bucket"}, **more) == ""


def test_a_folder_will_do_as_well() -> None:
    assert ours({"sagemaker_s3_output": "/kept"}) == "/kept/job-1/output/intermediate"

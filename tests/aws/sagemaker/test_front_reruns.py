"""Jobs of the front that run again: what the first run wrote stays, and the rerun has folders of its own."""

from __future__ import annotations

import asyncio
import secrets
import tarfile
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from calls import BUCKET, WAITER, scripted

from jupyter_smx.kernel.client import autostart

if TYPE_CHECKING:
    from pathlib import Path

    from calls import Calls

    from jupyter_smx.model.records.job import Job

pytestmark = pytest.mark.processes

NAMED_MODEL = """
import os
name = os.environ["TRAINING_JOB_NAME"]
open(os.environ["SM_MODEL_DIR"] + "/" + name, "w").write("weights")
open("/opt/ml/output/data/" + name, "w").write("table")
"""
NAMED_FILE = """
import json
name = json.load(open("/opt/ml/config/processingjobconfig.json"))["ProcessingJobName"]
for folder in ("output", "other"):
    open(f"/opt/ml/processing/{folder}/{name}", "w").write("rows")
"""


async def rerun(name: str) -> Job:
    """Submit a job again, as ``jupyter smx rerun`` and the panel do."""

    def send() -> Job:
        with closing(autostart.client()) as client:
            return client.rerun(name, secrets.token_hex(16), time.time())

    return await asyncio.to_thread(send)


def members(archive: Path) -> list[str]:
    with tarfile.open(archive) as packed:
        return packed.getnames()


async def test_a_rerun_of_a_training_job_has_a_model_of_its_own(shared_calls: Calls) -> None:
    assert (await shared_calls.train("fit-1", NAMED_MODEL))["TrainingJobStatus"] == "Completed"
    again = await rerun("fit-1")
    assert again.name != "fit-1"
    described = await shared_calls.end(again.name)
    assert described["TrainingJobStatus"] == "Completed"
    assert described["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/{again.name}/output/model.tar.gz"
    assert described["OutputDataConfig"]["S3OutputPath"] == f"s3://{BUCKET}"
    for name in ("fit-1", again.name):
        for archive in ("model.tar.gz", "output.tar.gz"):
            assert members(shared_calls.bucket / name / "output" / archive) == [name]


async def test_a_rerun_of_a_processing_job_writes_into_the_folder_of_its_name(shared_calls: Calls) -> None:
    """SDKs write the job's name into destinations; a destination without it is the user's, for each run."""
    sent = scripted(shared_calls, "prep-1", NAMED_FILE)
    own = {"S3Uri": f"s3://{BUCKET}/table", "LocalPath": "/opt/ml/processing/other", "S3UploadMode": "EndOfJob"}
    sent["ProcessingOutputConfig"]["Outputs"].append({"OutputName": "other", "AppManaged": False, "S3Output": own})
    await shared_calls("CreateProcessingJob", **sent)
    first = await shared_calls("DescribeProcessingJob", ProcessingJobName="prep-1", agent=WAITER)
    assert first["ProcessingJobStatus"] == "Completed", first.get("FailureReason")
    again = (await rerun("prep-1")).name
    second = await shared_calls("DescribeProcessingJob", ProcessingJobName=again, agent=WAITER)
    assert second["ProcessingJobStatus"] == "Completed", second.get("FailureReason")
    for name in ("prep-1", again):
        assert [path.name for path in (shared_calls.bucket / name / "output/out").iterdir()] == [name]
    assert {path.name for path in (shared_calls.bucket / "table").iterdir()} == {"prep-1", again}

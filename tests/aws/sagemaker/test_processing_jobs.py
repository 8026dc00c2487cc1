"""Processing jobs through the operations and a real controller, as the processors of SDK 2 send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from calls import WAITER, an_input, archive, processing_request, scripted

if TYPE_CHECKING:
    from calls import Calls

pytestmark = pytest.mark.processes

COPY = """
import os, shutil, sys
print(*sys.argv[1:])
assert __file__ == "/opt/ml/processing/input/code/prepare.py", __file__
shutil.copy("/opt/ml/processing/input/data/a.csv", "/opt/ml/processing/output/b.csv")
open("/opt/ml/output/message", "w").write("one file")
"""
RUNPROC = """#!/bin/bash

cd /opt/ml/processing/input/code/
tar -xzf sourcedir.tar.gz

# Exit on any error. SageMaker uses error code to mark failed job.
set -e

if [[ -f 'requirements.txt' ]]; then
    # Some py3 containers has typing, which may breaks pip install
    pip uninstall --yes typing

    pip install -r requirements.txt
fi

python prepare.py "$@"
"""
"""What a FrameworkProcessor of SDK 2.257.7 uploads."""


async def test_a_script_processor_runs_and_is_described(shared_calls: Calls) -> None:
    """Cases 34, 38 and 40."""
    sent = scripted(shared_calls, "prep", COPY, "--rows", "all of them")
    created = await shared_calls("CreateProcessingJob", **sent)
    assert created["ProcessingJobArn"] == "arn:aws:sagemaker:us-east-1:000000000000:processing-job/prep"
    found = await shared_calls("DescribeProcessingJob", ProcessingJobName="prep", agent=WAITER)
    assert found["ProcessingJobStatus"] == "Completed", found.get("FailureReason")
    for name in ("ProcessingInputs", "ProcessingOutputConfig", "AppSpecification", "ProcessingResources", "RoleArn"):
        assert found[name] == sent[name], name
    assert found["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400}
    assert found["ExitMessage"] == "one file"
    assert (shared_calls.bucket / "prep/output/out/b.csv").read_text() == "1,2"
    listed = await shared_calls("ListProcessingJobs")
    assert [row["ProcessingJobName"] for row in listed["ProcessingJobSummaries"]] == ["prep"]
    assert (await shared_calls("ListTrainingJobs"))["TrainingJobSummaries"] == []


async def test_a_framework_processor_runs_the_script_of_its_archive(shared_calls: Calls) -> None:
    """Case 35, the code; its requirements are those of any folder of code."""
    files = {"prepare.py": "import helper, sys\nprint(helper.NAME, *sys.argv[1:])", "helper.py": "NAME = 'here'"}
    code = shared_calls.put("fw/source/sourcedir.tar.gz", archive(files, 1))
    starter = shared_calls.put("fw/source/runproc.sh", RUNPROC)
    inputs = [
        an_input("code", code, "/opt/ml/processing/input/code/"),
        an_input("entrypoint", starter, "/opt/ml/processing/input/entrypoint"),
    ]
    sent = processing_request("fw", ["/bin/bash", "/opt/ml/processing/input/entrypoint/runproc.sh"], inputs)
    sent["AppSpecification"]["ContainerArguments"] = ["--x", "1"]
    await shared_calls("CreateProcessingJob", **sent)
    found = await shared_calls("DescribeProcessingJob", ProcessingJobName="fw", agent=WAITER)
    assert found["ProcessingJobStatus"] == "Completed", found.get("FailureReason")
    job = (await shared_calls.controller.job("fw")).job
    assert (job.spec.entry_point, job.spec.arguments, job.spec.command) == ("prepare.py", ("--x", "1"), ())


async def test_two_hosts_and_a_command_of_its_own(shared_calls: Calls) -> None:
    """Case 36, and an entry point that is no script of Python."""
    sent = processing_request("two", ["/bin/sh", "-c", "echo 1 > /opt/ml/processing/output/$(hostname)"], [])
    sent["ProcessingResources"]["ClusterConfig"]["InstanceCount"] = 2
    await shared_calls("CreateProcessingJob", **sent)
    found = await shared_calls("DescribeProcessingJob", ProcessingJobName="two", agent=WAITER)
    assert found["ProcessingJobStatus"] == "Completed", found.get("FailureReason")


async def test_a_failing_script_and_names_that_do_not_exist(shared_calls: Calls) -> None:
    """Cases 37 and 39."""
    await shared_calls("CreateProcessingJob", **scripted(shared_calls, "bad", "raise ValueError('no rows')"))
    found = await shared_calls("DescribeProcessingJob", ProcessingJobName="bad", agent=WAITER)
    assert found["ProcessingJobStatus"] == "Failed"
    assert found["FailureReason"].startswith("AlgorithmError")
    rejected = await shared_calls.error("StopProcessingJob", ProcessingJobName="bad")
    assert "The request was rejected because the processing job is in status Failed" in rejected[1]
    unknown = await shared_calls.error("DescribeProcessingJob", ProcessingJobName="nope")
    assert unknown[0] == "ValidationException"
    assert unknown[1].startswith("Could not find requested job")
    stop = await shared_calls.error("StopProcessingJob", ProcessingJobName="nope")
    assert stop[1].startswith("Could not find job to update with name")
    assert (await shared_calls.error("DescribeTrainingJob", TrainingJobName="bad"))[
        1
    ] == "Requested resource not found."

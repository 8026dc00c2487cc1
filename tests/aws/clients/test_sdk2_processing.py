"""Processors of SageMaker's Python SDK 2, unmodified."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing.wheels import write_wheel

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

PROCESS = """
import os, sys
assert __file__.startswith("/opt/ml/processing/input/code"), __file__
os.makedirs("/opt/ml/processing/output", exist_ok=True)
rows = open("/opt/ml/processing/input/rows/rows.csv").read().split()
print("rows", len(rows), sys.argv[1:], flush=True)
with open("/opt/ml/processing/output/count.txt", "w") as file:
    file.write(str(len(rows)))
if "--fail" in sys.argv:
    raise ValueError("not today")
"""
PROCESSOR = """
import sagemaker
from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.sklearn.processing import SKLearnProcessor
def processor(**more):
    named = dict(framework_version="1.2-1", role="Smx", instance_type="ml.m5.large", instance_count=1)
    return SKLearnProcessor(**{**named, **more})
def run(made, **more):
    rows = ProcessingInput(source="rows.csv", destination="/opt/ml/processing/input/rows")
    count = ProcessingOutput(output_name="count", source="/opt/ml/processing/output")
    made.run(code="process.py", inputs=[rows], outputs=[count], **more)
"""

SCRIPT_PROCESSOR = """
import boto3, sagemaker, time
from sagemaker.processing import ScriptProcessor
image = sagemaker.image_uris.retrieve("sklearn", "us-east-1", "1.2-1")
def script_processor(count):
    return ScriptProcessor(image_uri=image, command=["python3"], role="Smx", instance_type="ml.m5.large",
                           instance_count=count)
"""


@pytest.fixture
def processing(sdk: AwsClient) -> AwsClient:
    """Provide the SDK beside a script and its rows."""
    (sdk.folder / "process.py").write_text(PROCESS, encoding="utf-8")
    (sdk.folder / "rows.csv").write_text("1\n2\n3\n", encoding="utf-8")
    return sdk


def test_a_processor_gets_words_and_inputs_and_its_output_is_in_the_bucket(processing: AwsClient) -> None:
    ran = processing.run(
        PROCESSOR
        + """
made = processor()
run(made, arguments=["--depth", "2"])
about = made.latest_job.describe()
from sagemaker.s3 import S3Downloader
where = about["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
result = [about["ProcessingJobStatus"], S3Downloader.read_file(where + "/count.txt")]
"""
    )
    assert ran.result == ["Completed", "3"]
    assert "rows 3 ['--depth', '2']" in ran.output
    assert ran.names == []


def test_a_processor_that_fails_says_why(processing: AwsClient) -> None:
    ran = processing.run(
        PROCESSOR
        + """
from sagemaker.exceptions import UnexpectedStatusException
made = processor()
try:
    run(made, arguments=["--fail"])
except UnexpectedStatusException:
    result = made.latest_job.describe()["FailureReason"]
"""
    )
    assert ran.result.startswith("AlgorithmError")


def test_inputs_and_outputs_of_a_job_are_read_back(processing: AwsClient) -> None:
    ran = processing.run(
        PROCESSOR
        + """
from sagemaker.processing import ProcessingJob
made = processor(instance_count=2)
run(made, logs=False)
again = ProcessingJob.from_processing_name(sagemaker.Session(), made.latest_job.job_name)
def requests(job):
    return [[one._to_request_dict() for one in found] for found in (job.inputs, job.outputs)]
result = [[one.input_name for one in again.inputs], [one.output_name for one in again.outputs],
          requests(again) == requests(made.latest_job)]
"""
    )
    assert ran.result == [["input-1", "code"], ["count"], True]


def test_a_framework_processor_brings_its_folder_and_requirements(processing: AwsClient) -> None:
    folder = processing.folder / "src"
    folder.mkdir()
    (folder / "helper.py").write_text("ANSWER = 42\n", encoding="utf-8")
    wheels = processing.folder / "wheels"
    write_wheel(wheels, "beta", "1.5")
    (folder / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\nbeta\n", encoding="utf-8")
    (folder / "main.py").write_text(
        "import beta, helper, sys\nprint('answer', helper.ANSWER, beta.version, sys.argv[1:])\n", encoding="utf-8"
    )
    ran = processing.run(
        """
import sagemaker
from sagemaker.processing import FrameworkProcessor
from sagemaker.sklearn import SKLearn
made = FrameworkProcessor(estimator_cls=SKLearn, framework_version="1.2-1", role="Smx",
                          instance_type="ml.m5.large", instance_count=1)
made.run(code="main.py", source_dir="src", arguments=["--all"])
result = made.latest_job.describe()["ProcessingJobStatus"]
"""
    )
    assert ran.result == "Completed"
    assert "answer 42 1.5 ['--all']" in ran.output
    assert importlib.util.find_spec("beta") is None, "the job has it, and not the Python of the front"


def test_a_script_on_two_hosts_without_a_log(processing: AwsClient) -> None:
    (processing.folder / "host.py").write_text("print('on a host')\n", encoding="utf-8")
    ran = processing.run(
        SCRIPT_PROCESSOR
        + """
made = script_processor(2)
made.run(code="host.py", logs=False)
name = made.latest_job.job_name
rows = boto3.client("logs").filter_log_events(
    logGroupName="/aws/sagemaker/ProcessingJobs", logStreamNamePrefix=name)["events"]
result = [made.latest_job.describe()["ProcessingJobStatus"],
          sorted([row["logStreamName"].removeprefix(name).rpartition("-")[0], row["message"]] for row in rows)]
"""
    )
    status, lines = ran.result
    assert status == "Completed"
    assert lines == [["/algo-1", "on a host"], ["/algo-2", "on a host"]]
    assert "on a host" not in ran.output


def test_a_waiter_returns_with_the_end_of_a_job(processing: AwsClient) -> None:
    (processing.folder / "five.py").write_text("import time\ntime.sleep(5)\n", encoding="utf-8")
    ran = processing.run(
        SCRIPT_PROCESSOR
        + """
client = boto3.client("sagemaker")
made = script_processor(1)
made.run(code="five.py", wait=False)
name = made.latest_job.job_name
client.get_waiter("processing_job_completed_or_stopped").wait(ProcessingJobName=name)
end = time.time()
job = client.describe_processing_job(ProcessingJobName=name)
result = [end - job["CreationTime"].timestamp(), job["ProcessingJobStatus"]]
"""
    )
    waited, status = ran.result
    assert status == "Completed"
    assert waited < 8, "the job takes 5 s, and the waiter's next look would come after 60 s"

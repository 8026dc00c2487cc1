"""Answers about one job, as users of the oldest and the newest boto3 read them, also after a restart of the front."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from aws_client import restart_front
from boto3_jobs import CREATE

from jupyter_smx.aws_endpoint import process
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

BUILD_LIMIT = 250.0
"""Seconds for an environment with scikit-learn from an index."""
PATIENCE = 100.0
"""Seconds until a job has begun, with all that its client does before."""
GATE = """
import pathlib, time
print("first", flush=True)
pathlib.Path({folder!r}, "begun").touch()
while not pathlib.Path({folder!r}, "go").exists():
    time.sleep(0.05)
print("last", flush=True)
"""


def test_describe_while_a_job_runs_at_its_end_and_after_a_stop(boto3: AwsClient) -> None:
    """Cases 1, 4, 5, 6, 8 and 15."""
    ran = boto3.run(
        CREATE
        + """
import pathlib
def about(one):
    return sm.describe_training_job(TrainingJobName=one)
def until(one, *statuses):
    while about(one)["SecondaryStatus"] not in statuses:
        time.sleep(0.05)
    return about(one)
gate = str(pathlib.Path("go").resolve())
wait = f"import pathlib, time\\nwhile not pathlib.Path({gate!r}).exists(): time.sleep(0.05)"
sent = {"API_KEY": "x", "URL": "https://me:word@host/"}
create(name, wait, Environment=sent)
running = until(name, "Training")
pathlib.Path("go").touch()
over = until(name, "Completed", "Failed")  # a waiter of the old boto3 would sleep for 120 s
slow = "import signal, sys, time\\nsignal.signal(15, lambda *_: (time.sleep(1), sys.exit(0)))\\ntime.sleep(600)"
create(name + "-long", slow)
until(name + "-long", "Training")
sm.stop_training_job(TrainingJobName=name + "-long")
stopping = about(name + "-long")["TrainingJobStatus"]
stopped = until(name + "-long", "Stopped", "Failed")
times = [over[key].utcoffset() is not None for key in ("CreationTime", "TrainingStartTime", "TrainingEndTime")]
result = {
    "arn": boto3.client("sts").get_caller_identity()["Arn"],
    "running": [running["TrainingJobStatus"], "ModelArtifacts" in running],
    "rows": [sorted(row) for row in running["SecondaryStatusTransitions"]],
    "over": [over["TrainingJobStatus"], times, over["TrainingTimeInSeconds"] >= 1],
    "model": over["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{bucket}/out/{name}/output/model.tar.gz",
    "echo": [over["Environment"] == sent, over["HyperParameters"]["sagemaker_program"]],
    "stop": [stopping, stopped["TrainingJobStatus"], stopped["SecondaryStatus"]],
    "keep": error(create, name="long-kept", code="pass", resources={"KeepAlivePeriodInSeconds": 99999}),
}
"""
    )
    found = ran.result
    assert found["arn"].startswith("arn:aws:sts::000000000000:assumed-role/")
    assert found["running"] == ["InProgress", False]
    assert all({"Status", "StartTime", "StatusMessage"} <= {*row} for row in found["rows"])
    assert found["over"] == ["Completed", [True] * 3, True]
    assert found["model"]
    assert found["echo"] == [True, '"train.py"']
    assert found["stop"] == ["Stopping", "Stopped", "Stopped"]
    assert found["keep"][1] == "ValidationException"
    assert "21600" in found["keep"][2]


@pytest.mark.parametrize("boto3", ["new"], indirect=True)  # the front holds no second call for a waiter of the old one
def test_a_waiter_a_log_and_describe_go_on_with_a_front_that_is_started_again(boto3: AwsClient) -> None:
    """Case 73. Two retries of boto3's own may be over before a front listens again, so there are more here."""
    code = GATE.format(folder=str(boto3.folder))
    with ThreadPoolExecutor(1) as threads:
        script = threads.submit(
            boto3.run,
            "import os\nos.environ['AWS_MAX_ATTEMPTS'] = '8'\n"
            + CREATE
            + f"""
import pathlib, threading
group = "/aws/sagemaker/TrainingJobs"
create(name, {code!r})
def seen(**more):
    (stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=name)["logStreams"]
    return logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True, **more)
def wait():  # a call that is repeated is not held, and by default the waiter would sleep for 120 s after it
    waiter = sm.get_waiter("training_job_completed_or_stopped")
    waiter.wait(TrainingJobName=name, WaiterConfig={{"Delay": 1}})
waiting = threading.Thread(target=wait)
waiting.start()
while not pathlib.Path("begun").exists() or not logs.describe_log_streams(
        logGroupName=group, logStreamNamePrefix=name)["logStreams"]:
    time.sleep(0.1)
first = seen()
pathlib.Path("watched").touch()
while not pathlib.Path("restarted").exists():
    time.sleep(0.1)
running = sm.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]
again = error(create, name=name, code="pass")[1]
pathlib.Path("go").touch()
waiting.join()
last = seen(nextToken=first["nextForwardToken"])
texts = [[row["message"] for row in page["events"]] for page in (first, last)]
result = [running, again, texts, sm.describe_training_job(TrainingJobName=name)["TrainingJobStatus"]]
""",
            limit=200.0,
        )
        eventually_blocking((boto3.folder / "watched").exists, within=PATIENCE)
        restart_front()
        (boto3.folder / "restarted").touch()
        ran = script.result()
    assert ran.result == ["InProgress", "ResourceInUse", [["first"], ["last"]], "Completed"]


@pytest.fixture
def matching_front(variables: dict[str, str]) -> Iterator[dict[str, str]]:
    """Start the front again with environments for images; the port and the key stay."""
    process.stop_front()
    process.start_front(lambda _: None, images="match")
    yield variables
    process.stop_front()
    process.start_front(lambda _: None)


@pytest.mark.usefixtures("matching_front")
@pytest.mark.parametrize("boto3", ["new"], indirect=True)
def test_the_image_of_scikit_learn_is_an_environment_with_its_version_that_is_built_once(boto3: AwsClient) -> None:
    ran = boto3.run(
        CREATE
        + """
code = "import sklearn, sys\\nprint(sklearn.__version__, sys.prefix)"
lines = []
for one in (name, name + "-again"):
    create(one, code)
    while (about := sm.describe_training_job(TrainingJobName=one))["TrainingJobStatus"] == "InProgress":
        time.sleep(0.2)
    assert about["TrainingJobStatus"] == "Completed", about.get("FailureReason")
    rows = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=one + "/")["events"]
    lines.append(rows[-1]["message"].split())
result = [name, lines]
""",
        limit=BUILD_LIMIT,
    )
    name, (first, again) = ran.result
    assert first[0].startswith("1.2.")
    assert again == first, "the same environment"
    with closing(autostart.client()) as client:
        notes = client.job(name).why.notes
    assert any(
        "runs an environment of scikit-learn==1.2.*,pandas,joblib,numpy<2 in its place" in note for note in notes
    )

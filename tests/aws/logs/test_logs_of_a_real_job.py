"""Logs and metrics of a job that a real controller ran on the local engine."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio
from aws.recorded_jobs import CALLER

from jupyter_smx import controller_launch
from jupyter_smx.aws.cloudwatch.service import make_service as make_cloudwatch
from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.job_records import ControllerRecords
from jupyter_smx.aws.logs.service import make_service
from jupyter_smx.aws.service import AwsError
from jupyter_smx.server.connection import ControllerConnection
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.teardown import stop_everything

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.processes
GROUP = "/aws/sagemaker/TrainingJobs"
SCRIPT = """
import os, time
for number in range(3):
    print(f"line {number} accuracy={number / 4};", flush=True)
    time.sleep(0.05)
open(os.environ["SMX_TEST_GO"]).read()  # a pipe: waits for the test
print()
print("end", end="", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    provide_data_folder(folder)
    yield folder
    stop_everything()


@pytest_asyncio.fixture
async def connection(folder: Path) -> AsyncIterator[ControllerConnection]:  # noqa: ARG001 - the controller is started there
    made = ControllerConnection()
    yield made
    made.close()


class RealJob:
    """A job that prints three lines, waits for :meth:`go_on`, and prints two more."""

    def __init__(self, connection: ControllerConnection, pipe: Path) -> None:
        self.connection = connection
        self.begin = time.time()
        self._pipe = pipe
        os.mkfifo(pipe)
        records = ControllerRecords(ControllerClient(connection))
        self.logs, self.cloudwatch = make_service(records), make_cloudwatch(records)

    async def submit(self) -> None:
        spec = {
            "kind": "train",
            "source": SCRIPT,
            "base_name": "train",
            "engine": "local",
            "job_name": "exact-1",
            "environment": {"SMX_TEST_GO": str(self._pipe)},
            "metrics": {"accuracy": r"accuracy=([0-9.]+);"},
        }
        body = msgspec.json.encode({"id": f"{1:032x}", "spec": spec})
        answer = await self.connection.request("POST", "/v1/jobs", body=body, on_lost="start")
        assert answer.code == 201, answer.body

    async def go_on(self) -> None:
        """Let the job end, and wait for that."""
        await asyncio.to_thread(self._pipe.write_text, "")
        answer = await self.connection.request("GET", "/v1/jobs/exact-1", query={"wait": "30"}, wait=30)
        assert msgspec.json.decode(answer.body)["status"] == "Completed"

    async def call(self, operation: str, **members: Any) -> dict[str, Any]:
        found: dict[str, Any] = await self.logs.operations[operation]({"logGroupName": GROUP} | members, CALLER)
        return found

    async def streams(self) -> list[str]:
        found = await self.call("DescribeLogStreams", logStreamNamePrefix="exact-1/", limit=1)
        return [row["logStreamName"] for row in found["logStreams"]]

    async def first_lines(self) -> list[dict[str, Any]]:
        """Return the lines, if there are three."""
        (stream,) = await self.streams()
        page = await self.call("GetLogEvents", logStreamName=stream, startFromHead=True)
        events: list[dict[str, Any]] = page["events"]
        return events if len(events) == 3 else []

    async def accuracy(self) -> list[dict[str, Any]]:
        members = {
            "Namespace": GROUP,
            "MetricName": "accuracy",
            "Dimensions": [{"Name": "TrainingJobName", "Value": "exact-1"}],
            "StartTime": datetime.fromtimestamp(self.begin, timezone.utc),
            "EndTime": datetime.now(timezone.utc),
            "Period": 3600,
            "Statistics": ["Sum", "SampleCount"],
        }
        answer = await self.cloudwatch.operations["GetMetricStatistics"](members, CALLER)
        rows: list[dict[str, Any]] = answer["Datapoints"]
        return rows


async def test_lines_come_while_the_job_runs_and_each_is_there_once_at_the_end(
    connection: ControllerConnection, tmp_path: Path
) -> None:
    job = RealJob(connection, tmp_path / "go")
    await job.submit()
    (stream,) = await eventually(job.streams, "the job prints", within=60)
    assert stream.startswith("exact-1/algo-1-")
    first = await eventually(job.first_lines, "three lines are there while the job runs")
    times = [event["timestamp"] for event in first]
    assert int(job.begin * 1000) <= times[0] <= times[1] <= times[2] <= time.time() * 1000
    await job.go_on()
    page = await job.call("GetLogEvents", logStreamName=stream, startFromHead=True)
    assert page["events"][:3] == first
    assert [event["message"] for event in page["events"][3:]] == [" ", "end"]
    assert all(event["timestamp"] >= times[2] for event in page["events"][3:])
    found = await job.call("FilterLogEvents", logStreamNamePrefix="exact-1", filterPattern="accuracy")
    assert [event["timestamp"] for event in found["events"]] == times
    with pytest.raises(AwsError, match="log stream does not exist"):
        await job.call("GetLogEvents", logStreamName="exact/algo-1-1")
    rows = await job.accuracy()
    assert (sum(row["Sum"] for row in rows), sum(row["SampleCount"] for row in rows)) == (0.75, 3)

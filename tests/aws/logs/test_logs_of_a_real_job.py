"""Logs of jobs that a real controller ran on the local engine."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio
from aws.recorded_jobs import CALLER

from jupyter_smx import controller_launch
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


async def submit(connection: ControllerConnection, **fields: Any) -> None:
    spec = {"kind": "train", "source": SCRIPT, "base_name": "train", "engine": "local"} | fields
    body = msgspec.json.encode({"id": "00000000000000000000000000000001", "spec": spec})
    answer = await connection.request("POST", "/v1/jobs", body=body, on_lost="start")
    assert answer.code == 201, answer.body


async def test_lines_come_while_the_job_runs_and_each_is_there_once_at_the_end(
    connection: ControllerConnection, tmp_path: Path
) -> None:
    os.mkfifo(go := tmp_path / "go")
    begin = time.time() * 1000
    await submit(connection, job_name="exact-1", environment={"SMX_TEST_GO": str(go)})
    service = make_service(ControllerRecords(connection))

    async def call(operation: str, **members: Any) -> dict[str, Any]:
        found: dict[str, Any] = await service.operations[operation]({"logGroupName": GROUP} | members, CALLER)
        return found

    async def streams() -> list[str]:
        found = await call("DescribeLogStreams", logStreamNamePrefix="exact-1/", limit=1)
        return [row["logStreamName"] for row in found["logStreams"]]

    (stream,) = await eventually(streams, "the job prints", within=60)
    assert stream.startswith("exact-1/algo-1-")

    async def first_lines() -> list[dict[str, Any]]:
        page = await call("GetLogEvents", logStreamName=stream, startFromHead=True)
        events: list[dict[str, Any]] = page["events"]
        return events if len(events) == 3 else []

    first = await eventually(first_lines, "three lines are there while the job runs")
    times = [event["timestamp"] for event in first]
    assert begin <= times[0] < times[1] < times[2] <= time.time() * 1000
    await asyncio.to_thread(go.write_text, "")
    answer = await connection.request("GET", "/v1/jobs/exact-1", query={"wait": "30"}, wait=30)
    assert msgspec.json.decode(answer.body)["status"] == "Completed"
    page = await call("GetLogEvents", logStreamName=stream, startFromHead=True, startTime=times[-1])
    assert [event["message"] for event in page["events"]] == [first[2]["message"], " ", "end"]
    assert page["events"][0] == first[2]
    found = await call("FilterLogEvents", logStreamNamePrefix="exact-1", filterPattern="accuracy")
    assert [event["timestamp"] for event in found["events"]] == times
    with pytest.raises(AwsError, match="log stream does not exist"):
        await call("GetLogEvents", logStreamName="exact/algo-1-1")

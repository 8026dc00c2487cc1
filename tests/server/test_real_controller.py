"""The whole way once with nothing faked: a browser's request, the server, a real controller, a real host, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from jupyter_smx import controller_launch
from jupyter_smx.server.bus_events import SCHEMA_ID
from jupyter_smx.testing.data_folder import provide_data_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jupyter_smx.server.app import SmxServerExtension

JOB = "0123456789abcdef"
SOURCE = "import os\nprint('hello from', os.environ['SM_CURRENT_HOST'])\n"


@pytest_asyncio.fixture
async def real(following: SmxServerExtension) -> AsyncIterator[SmxServerExtension]:
    """The extension; the controller that it starts ends with the test."""
    provide_data_folder(controller_launch.data_dir())
    yield following
    process = following.connection.starter.process
    if process is not None:
        process.terminate()
        process.wait(timeout=20)


async def test_a_job_that_a_browser_submits_runs_and_is_news(real: Any, jp_fetch: Any, jp_ws_fetch: Any) -> None:
    del real
    bus = await jp_ws_fetch("api", "events", "subscribe")
    body = json.dumps({"id": JOB, "spec": {"kind": "train", "source": SOURCE, "base_name": "hello"}})
    submitted = await jp_fetch("jupyter-smx", "jobs", method="POST", body=body, request_timeout=60)
    assert submitted.code == 201
    final = await jp_fetch("jupyter-smx", "jobs", JOB, params={"wait": "50", "until": "final"}, request_timeout=60)
    assert json.loads(final.body)["state"] == "Completed", final.body
    log = await jp_fetch("jupyter-smx", "jobs", JOB, "logs", params={"offset": "0"})
    assert log.body == b"hello from algo-1\n"
    assert log.headers["X-Smx-Final"] == "1"
    (listed,) = json.loads((await jp_fetch("jupyter-smx", "jobs")).body)["jobs"]
    assert listed["status"] == "Completed"
    while True:
        event = json.loads(await bus.read_message())
        if event["schema_id"] == SCHEMA_ID and event["status"] == "Completed":
            break
    bus.close()
    assert event["id"] == JOB
    since = json.loads((await jp_fetch("jupyter-smx", "changes", params={"since": str(event["seq"] - 1)})).body)
    assert since["events"][0]["job"]["name"] == event["name"]

"""Answers of Describe that are kept back: for clients with a short read timeout, and at the end of the front."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent import futures
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.config import Config
from botocore.exceptions import WaiterError
from botocore.session import Session
from tornado.web import RequestHandler

from jupyter_smx import controller_launch
from jupyter_smx.aws import app, front
from jupyter_smx.aws.controller_client import BilledJob, ControllerClient
from jupyter_smx.aws.sagemaker.service import make_service
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.aws.service import Caller, Service
from jupyter_smx.aws_endpoint.endpoint_file import ensure_endpoint
from jupyter_smx.aws_endpoint.process import lock_path
from jupyter_smx.aws_endpoint.settings import read_settings
from jupyter_smx.data_folder.singleton_lock import SingletonLock
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.results.reports import Bill
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE_LOOK = {"Delay": 0, "MaxAttempts": 1}


class LongJob:
    """A controller whose one job does not end; it notes long polls."""

    def __init__(self) -> None:
        group = InstanceGroup(name="a", instance_type="local", instance_count=1)
        spec = JobSpec(kind="train", source="", base_name="long", instance_groups=(group,))
        job = Job(id="a" * 32, name="long", spec=spec, created_at=1.0, started_at=2.0, state=SecondaryStatus.TRAINING)
        self._found = BilledJob(job, Bill(price_per_hour=None, billable_seconds=0.0, retained_seconds=0.0, cost=None))
        self.polled = threading.Event()

    async def job(self, _ref: str, wait: float = 0.0) -> BilledJob:
        if wait:
            self.polled.set()
            await asyncio.Event().wait()
        return self._found


def last_status(client: Any) -> str:
    """Return the status that a waiter sees who looks once."""
    with pytest.raises(WaiterError, match="Max attempts exceeded") as caught:
        client.get_waiter("training_job_completed_or_stopped").wait(TrainingJobName="long", WaiterConfig=ONE_LOOK)
    status: str = caught.value.last_response["TrainingJobStatus"]
    return status


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_a_waiter_with_a_short_read_timeout_waits_on(
    start_front: Callable[..., Any], tmp_path: Path, mode: str
) -> None:
    """Its second try is answered at once."""
    job = LongJob()
    settings = SageMakerSettings(data_folder=tmp_path)
    service = make_service(cast("ControllerClient", job), settings, time.time, time.monotonic)
    client = start_front(service).client("sagemaker", read_timeout=1.0, mode=mode)
    assert last_status(client) == "InProgress"
    assert job.polled.is_set()


@pytest.mark.parametrize(
    ("header", "attempt"),
    [
        ("", 1),
        ("attempt=1", 1),
        ("attempt=2; max=3", 2),
        ("ttl=20261130T180000Z; attempt=3; max=5", 3),
        ("attempt=", 1),
        ("attempt=two", 1),
        ("no-attempt=2", 1),
    ],
)
def test_the_attempt_of_a_call_is_read(header: str, attempt: int) -> None:
    assert front.read_attempt(header) == attempt


def a_client(endpoint: Any) -> Any:
    return Session().create_client(
        "sagemaker",
        region_name="us-east-1",
        endpoint_url=endpoint.url,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        config=Config(retries={"total_max_attempts": 1}),
    )


async def test_a_front_that_a_signal_ends_answers_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has one attempt, and sees no error."""
    job = LongJob()
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    monkeypatch.setattr(app, "ControllerClient", lambda: job)
    controller_launch.ensure_folders()
    endpoint, lock = ensure_endpoint(), SingletonLock(lock_path())
    listens = asyncio.Event()
    monkeypatch.setattr(lock, "write", lambda *_: listens.set())
    assert lock.acquire()
    try:
        running = asyncio.create_task(app._run(read_settings(), lock))
        await asyncio.wait_for(listens.wait(), 30)
        looking = asyncio.create_task(asyncio.to_thread(last_status, a_client(endpoint)))
        assert await asyncio.to_thread(job.polled.wait, 30)
        assert not looking.done()
        signal.raise_signal(signal.SIGTERM)
        assert await asyncio.wait_for(looking, 30) == "InProgress"
        await asyncio.wait_for(running, 30)
    finally:
        lock.release()


def test_the_end_of_a_front_waits_for_a_request_under_way_until_a_limit(start_front: Callable[..., Any]) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    async def stop(_: dict[str, Any], __: Caller) -> dict[str, Any]:
        begun.set()
        await asyncio.to_thread(goes_on.wait)
        return {}

    server = start_front(Service("sagemaker", {"StopTrainingJob": stop}))
    with futures.ThreadPoolExecutor(1) as threads:
        try:
            answer = threads.submit(server.client("sagemaker").stop_training_job, TrainingJobName="a")
            assert begun.wait(30)
            asyncio.run_coroutine_threadsafe(server.front.drain(0.01), server.loop).result(30)
            assert not answer.done()
            drained = asyncio.run_coroutine_threadsafe(server.front.drain(60), server.loop)
            with pytest.raises(futures.TimeoutError):
                drained.result(0.1)
        finally:
            goes_on.set()
        drained.result(30)
        assert answer.result(30)["ResponseMetadata"]["HTTPStatusCode"] == 200


async def test_the_end_of_a_front_waits_for_a_request_that_comes_meanwhile() -> None:
    """A client that kept its connection sends it when the first one is answered."""
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    context = front.FrontContext({}, {}, time.time, lambda: "", open_requests={first})
    for one in (first, second):
        one.add_done_callback(context.open_requests.discard)
    first.add_done_callback(lambda _: context.open_requests.add(second))
    first.add_done_callback(lambda _: loop.call_later(0.05, second.set_result, {}))
    loop.call_soon(first.set_result, {})
    ending = front.Front(context, front.S3Route(RequestHandler, {}), 0)
    await ending.drain(30)
    assert second.done()

"""What the creation of a job does on this machine, with a controller of the test's own: threads, disks and names."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.aws.sagemaker.jobs import NamedJobs
from jupyter_smx.aws.sagemaker.request_store import RequestStore
from jupyter_smx.aws.sagemaker.requests import s3_paths
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.aws.service import AwsError, Caller
from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError
from jupyter_smx.model.results.reports import EngineInfo
from jupyter_smx.model.spec.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.aws.controller_client import ControllerClient

CALLER = Caller("SMX", "us-east-1", invocation_id="one")


class FakeController:
    """Answers about an engine."""

    async def engine_info(self, engine: str) -> EngineInfo:
        return EngineInfo(name=engine)

    async def instance_types(self, _engine: str) -> tuple[str, ...]:
        return ()


def named_jobs(folder: Path, controller: object, s3_root: Path | None = None) -> NamedJobs:
    settings = SageMakerSettings(data_folder=folder, s3_root=s3_root)
    store = RequestStore(folder / "requests")
    return NamedJobs(cast("ControllerClient", controller), settings, lambda: 1.0, lambda: 1.0, store)


def a_command(*_: Any) -> TranslatedRequest:
    return TranslatedRequest(kind="train", name="a", fields={"job_name": "a"}, code=Code(command=("true",)), groups=())


async def test_folders_of_channels_are_read_beside_the_loop_that_answers(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    def translate(*_: Any) -> TranslatedRequest:
        threads.append(threading.current_thread())
        raise AwsError("ValidationException", "enough")

    with pytest.raises(AwsError, match="enough"):
        await named_jobs(tmp_path, FakeController()).create("train", "a", {}, translate, CALLER)
    assert threading.current_thread() not in threads
    assert len(threads) == 1


def test_a_folder_is_looked_at_only_until_its_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bucket" / "data" / "deep").mkdir(parents=True)
    with pytest.raises(AwsError):
        s3_paths.find_source("s3://bucket/data", tmp_path)
    (tmp_path / "bucket" / "data" / "deep" / "b.csv").touch()
    assert s3_paths.find_source("s3://bucket/data", tmp_path)
    for number in range(50):
        (tmp_path / "bucket" / "data" / "deep" / f"{number}.csv").touch()
    names: list[str] = []
    scan = os.scandir

    @contextmanager
    def scandir(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scan(path) as entries:
            yield (names.append(entry.name) or entry for entry in entries)  # type: ignore[func-returns-value]

    monkeypatch.setattr(os, "scandir", scandir)
    assert s3_paths.find_source("s3://bucket/data", tmp_path)
    assert len(names) == len(("deep", "its first file"))


async def test_a_disk_that_takes_no_request_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    (tmp_path / "requests").touch()
    with pytest.raises(AwsError, match=f"cannot be kept.*Free some space on the disk of {tmp_path}") as caught:
        await named_jobs(tmp_path, FakeController()).create("train", "a", {}, a_command, CALLER)
    assert caught.value.code == "ServiceUnavailable"


class TakenName(FakeController):
    """Has one job, and refuses its name."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def submit(self, _job: str, _spec: Any) -> None:
        raise ResourceInUseError("a exists", field="job_name")

    async def job(self, name: str) -> Any:
        return SimpleNamespace(job=SimpleNamespace(name=name, spec=SimpleNamespace(kind=self.kind)))


@pytest.mark.parametrize("kind", ["training", "processing"])
async def test_the_error_of_a_taken_name_has_the_arn_of_the_job_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    jobs = named_jobs(tmp_path, TakenName("train" if kind == "training" else "process"))
    with pytest.raises(AwsError, match=f"Processing job names .* a {kind} job .*:us-east-1:.*:{kind}-job/a") as caught:
        await jobs.create("process", "a", {}, a_command, CALLER)
    assert caught.value.code == "ResourceInUse"


def names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


class SlowSubmission(FakeController):
    """Accepts the first job after ``answer`` is set."""

    def __init__(self) -> None:
        self.submitted, self.answer = asyncio.Event(), asyncio.Event()
        self.jobs: dict[str, Any] = {}

    async def submit(self, job: str, spec: Any) -> None:
        self.submitted.set()
        await self.answer.wait()
        self.jobs[job] = spec

    async def job(self, _name: str) -> Any:
        if not self.jobs:
            raise ResourceNotFoundError("there is no job")
        ((job, _),) = self.jobs.items()
        return SimpleNamespace(job=SimpleNamespace(name="a", id=job, spec=SimpleNamespace(kind="train")))


@pytest.mark.parametrize("request_of_second", [{"Seed": 1}, {"Seed": 2}])
async def test_attempts_of_one_call_create_its_inputs_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_of_second: dict[str, Any]
) -> None:
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(tmp_path / "smx"))
    bucket = tmp_path / "s3" / "bucket"
    bucket.mkdir(parents=True)
    (bucket / "a").touch()
    (bucket / "list").write_text(json.dumps([{"prefix": "s3://bucket/"}, "a"]))
    translated: list[Any] = []

    def translate(request: Any, *_: Any) -> TranslatedRequest:
        translated.append(request)
        (bucket / "list").write_text("[]" if len(translated) > 1 else (bucket / "list").read_text())
        channel = Channel(name="train", source=str(bucket / "list"), data_type="ManifestFile")
        return replace(a_command(), channels=(channel,))

    controller = SlowSubmission()
    jobs = named_jobs(tmp_path, controller, tmp_path / "s3")
    first = asyncio.ensure_future(jobs.create("train", "a", {"Seed": 1}, translate, CALLER))
    await controller.submitted.wait()
    second = asyncio.ensure_future(jobs.create("train", "a", request_of_second, translate, CALLER))
    controller.answer.set()
    arn, answer = await asyncio.gather(first, second, return_exceptions=True)
    assert str(arn).endswith("training-job/a")
    assert answer == arn if request_of_second == {"Seed": 1} else "already exists" in str(answer)
    assert translated == [{"Seed": 1}]
    ((_, spec),) = controller.jobs.items()
    assert names(spec.channels[0].source) == ["a"]
    assert not jobs._locks, "no attempt holds or waits for one"

"""Outputs for URLs: the fsspec worker puts them into a real object store, or they stay here with a reason."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from records import a_job, a_spec

from jupyter_smx.agent.stores import retry as tries
from jupyter_smx.agent.stores import upload as putting
from jupyter_smx.agent.system.processes import process
from jupyter_smx.controller.transfer import upload as delivery
from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.controller.transfer.stage_out import HostOutputs, OutputStager
from jupyter_smx.model.spec.channel import Output
from jupyter_smx.testing.eventually import eventually, eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.servers.object_storage import Bucket

pytestmark = pytest.mark.heavy("stores")


def a_wish(bucket: Bucket, kind: str, name: str, destination: str) -> Job:
    output = Output(name=name, path="/opt/ml/processing/output/clean", destination=destination)
    return a_job(cluster="c1", lease=1, spec=a_spec(kind=kind, outputs=(output,), environment=bucket.environment))


def left(folder: Path, files: dict[str, bytes]) -> HostOutputs:
    """Write files to a spool as an agent does."""
    spool = folder / "spool"
    for name, content in files.items():
        (spool / "artifacts" / name).parent.mkdir(parents=True, exist_ok=True)
        (spool / "artifacts" / name).write_bytes(content)
    rows = [{"name": name, "path": f"artifacts/{name}", "size": len(content)} for name, content in files.items()]
    return HostOutputs("algo-1", {"artifacts": rows}, spool=HostSpool(spool))


def stored(bucket: Bucket) -> dict[str, bytes]:
    found = (path for path in bucket.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(bucket.folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("destination", "key"),
    [
        ("s3://bucket/models/", "models/model.tar.gz"),
        ("s3://bucket/models", "models/model.tar.gz"),
        ("s3://bucket", "model.tar.gz"),
        ("s3://bucket/models/mine.tar.gz", "models/mine.tar.gz"),
    ],
)
async def test_a_model_is_put_where_the_user_wants_it(
    bucket: Bucket, tmp_path: Path, destination: str, key: str
) -> None:
    desk, job = OutputStager(tmp_path / "jobs"), a_wish(bucket, "train", "model", destination)
    model = left(tmp_path, {"model.tar.gz": b"m" * 100_000})
    for _time in range(2):
        (artifact,) = await desk.stage_out(job, [model])
    assert stored(bucket) == {key: b"m" * 100_000}
    assert artifact.path == str(desk.folder(job.id).artifacts / "model.tar.gz"), "it is here as well"


async def test_files_of_a_processing_job_keep_their_names(bucket: Bucket, tmp_path: Path) -> None:
    desk, job = OutputStager(tmp_path / "jobs"), a_wish(bucket, "process", "clean", "s3://bucket/out/")
    files = {"outputs/clean/a.csv": b"a", "outputs/clean/deep/b c.csv": b"b", "outputs/other/x": b"x"}
    await desk.stage_out(job, [left(tmp_path, files)])
    assert stored(bucket) == {"out/a.csv": b"a", "out/deep/b c.csv": b"b"}


@pytest.mark.parametrize(
    ("destination", "changes", "said"),
    [
        ("s3://elsewhere/x/", {}, "the bucket, object or server does not exist"),
        ("s3://bucket/x/", {"AWS_SECRET_ACCESS_KEY": "x" * 40}, "access is denied"),
        ("https://127.0.0.1:1/x/", {}, "cannot be reached"),
        ("nosuch://x/y/", {}, "fsspec does not support 'nosuch'"),
    ],
)
async def test_what_cannot_be_put_there_is_said_and_stays_here(
    bucket: Bucket, tmp_path: Path, destination: str, changes: dict[str, str], said: str
) -> None:
    bucket.environment.update(changes)
    desk, job = OutputStager(tmp_path / "jobs"), a_wish(bucket, "train", "model", destination)
    with pytest.raises(StagingError) as trouble:
        await desk.stage_out(job, [left(tmp_path, {"model.tar.gz": b"model"})])
    kept = desk.folder(job.id).artifacts
    assert said in str(trouble.value)
    assert f"The files are in {kept}" in trouble.value.cure
    assert (kept / "model.tar.gz").read_bytes() == b"model"
    assert not trouble.value.transient


async def test_where_fsspec_is_not_installed_it_is_said_how_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fsspec").mkdir()
    (tmp_path / "fsspec" / "__init__.py").write_text("raise ImportError('as if it were not there')")
    main = "from jupyter_smx.agent.stores.fsspec_worker import main; main()"
    poor = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {main}"
    monkeypatch.setattr(delivery, "FSSPEC_WORKER", (sys.executable, "-c", poor))
    (tmp_path / "x").write_text("x")
    with pytest.raises(StagingError, match="lacks fsspec") as trouble:
        await delivery.upload([(tmp_path / "x", "s3://bucket/x")], {}, tmp_path)
    assert trouble.value.cure.startswith("Run pip install fsspec s3fs in that environment. ")


async def test_variables_of_the_jobs_python_do_not_change_ours(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "fsspec").mkdir()
    (tmp_path / "fsspec" / "__init__.py").write_text("raise ImportError('of the job')")
    bucket.environment.update(PYTHONPATH=str(tmp_path), PYTHONHOME="/nowhere", VIRTUAL_ENV="/nowhere", LD_PRELOAD="/x")
    desk, job = OutputStager(tmp_path / "jobs"), a_wish(bucket, "train", "model", "s3://bucket/models/")
    await desk.stage_out(job, [left(tmp_path, {"model.tar.gz": b"model"})])
    assert stored(bucket) == {"models/model.tar.gz": b"model"}


WAITS = "import os, sys, time; open(sys.argv[1] + str(os.getpid()), 'w').close(); sys.stdin.read(); time.sleep(600)"


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which workers that never end write their process ids."""
    folder = tmp_path / "couriers"
    folder.mkdir()
    monkeypatch.setattr(delivery, "FSSPEC_WORKER", (sys.executable, "-c", WAITS, f"{folder}/"))
    return folder


def numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


async def test_slow_uploads_keep_nobody_else_waiting_and_end_when_they_are_cancelled(
    bucket: Bucket, tmp_path: Path, slow: Path
) -> None:
    many = 40
    """More than there are threads."""
    running = []
    for number in range(many):
        desk, job = OutputStager(tmp_path / f"jobs-{number}"), a_wish(bucket, "train", "model", "s3://bucket/models/")
        files = left(tmp_path / str(number), {"model.tar.gz": b"model"})
        running.append(asyncio.ensure_future(desk.stage_out(job, [files])))
    await eventually(lambda: len(numbers(slow)) == many, "all uploads are under way")
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "a thread"), 5) == "a thread"
    pids = numbers(slow)
    for one in running:
        one.cancel()
    assert [type(one) for one in await asyncio.gather(*running, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * many
    assert [pid for pid in pids if process.is_alive(pid)] == []


def test_a_courier_dies_with_who_started_it(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    wish = {"do": "put", "source": "s3://bucket/x", "pairs": [[str(tmp_path / "file"), "s3://bucket/x"]]}
    bucket.proxy.stall()
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen({delivery.FSSPEC_WORKER!r}, stdin=subprocess.PIPE, text=True)\n"
        f"child.stdin.write({json.dumps(wish)!r} + '\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True)\nsys.stdin.read()\n"
    )
    words = [sys.executable, "-c", parent]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **bucket.environment}
    ) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        eventually_blocking(lambda: bucket.proxy.received, "it asks the store, which never answers")
        started.kill()
    eventually_blocking(lambda: not process.is_alive(pid), "it is gone")


def flaky(times: int, error: Exception) -> tuple[Callable[[], None], list[int]]:
    """Return a function that fails ``times`` times, and the list of its calls."""
    tries: list[int] = []

    def work() -> None:
        tries.append(len(tries))
        if len(tries) <= times:
            raise error

    return work, tries


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(tries.time, "sleep", found.append)
    return found


def test_what_may_pass_is_tried_again_after_longer_and_longer_pauses(pauses: list[float]) -> None:
    work, made = flaky(2, ConnectionResetError())
    tries.retry(work)
    assert (len(made), pauses) == (3, [0.5, 1.0])


@pytest.mark.parametrize("error", [PermissionError(), FileNotFoundError(), ValueError()])
def test_who_is_refused_is_not_asked_again(pauses: list[float], error: Exception) -> None:
    work, made = flaky(9, error)
    with pytest.raises(type(error)):
        tries.retry(work)
    assert (len(made), pauses) == (1, [])


def test_what_does_not_pass_is_told_in_the_end(pauses: list[float]) -> None:
    work, made = flaky(9, TimeoutError())
    with pytest.raises(TimeoutError):
        tries.retry(work)
    assert (len(made), pauses) == (4, [0.5, 1.0, 2.0])


async def test_a_child_that_dies_is_no_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FSSPEC_WORKER", (sys.executable, "-c", "raise SystemExit(7)"))
    with pytest.raises(StagingError, match="it exited with code 7"):
        await delivery.upload([(tmp_path / "x", "s3://bucket/x")], {}, tmp_path)


class Slowly:
    """Each write waits for three others, unless one was refused; paths that end in ``/0`` are refused."""

    protocol = ("slow",)

    def __init__(self) -> None:
        self.met = threading.Barrier(4)
        self.refused = threading.Event()
        self.begun: list[str] = []

    def put_file(self, _source: str, path: str) -> None:
        self.begun.append(path)
        if path.endswith("/0"):
            self.refused.set()
            raise PermissionError(path)
        if not self.refused.is_set():
            self.met.wait(10)


def test_a_connection_that_is_refused_once_is_tried_again(
    pauses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, refusals = Slowly(), [ConnectionRefusedError()]
    system.refused.set()

    def find(url: str, **_words: bool) -> tuple[Slowly, str]:
        if refusals:
            raise refusals.pop()
        return system, url

    monkeypatch.setattr(putting.filesystems, "find_filesystem", find)
    (tmp_path / "file").write_text("x")
    assert putting.put_files([[str(tmp_path / "file"), "slow://x/1"]]) == 1
    assert (system.begun, len(pauses)) == (["slow://x/1"], 1)


def test_many_files_are_put_at_the_same_time_and_after_a_refusal_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = Slowly()
    monkeypatch.setattr(putting.filesystems, "find_filesystem", lambda url, **_words: (system, url))
    (tmp_path / "file").write_text("x")
    pairs = [[str(tmp_path / "file"), f"slow://x/{number}"] for number in range(400)]
    assert putting.put_files(pairs[1:5]) == 4
    system.refused.set()
    with pytest.raises(PermissionError):
        putting.put_files(pairs)
    assert len(system.begun) < len(pairs)

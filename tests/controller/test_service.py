"""The server around the core: errors and slow steps in it do not delay requests on jobs."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest_asyncio
from records import finished
from serving import Answer, Unix, World

from jupyter_smx import controller_launch_errors
from jupyter_smx.controller import retention, server
from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.controller.singleton import ListenSocket
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    import pytest

    from jupyter_smx.model.records.job import Job


@pytest_asyncio.fixture
async def unserved(tmp_path: Path) -> AsyncIterator[World]:
    """Provide a controller that does not run yet, and end it after the test."""
    world = World(tmp_path)
    async with world.agent:
        yield world
        world.stop.set()
        await asyncio.gather(*(t for t in asyncio.all_tasks() if t.get_name() == "service"), return_exceptions=True)


async def serve(world: World) -> asyncio.Task[None]:
    running = asyncio.create_task(world.service.run(ListenSocket(world.socket), world.stop), name="service")
    await eventually(lambda: world.socket.exists() or running.done(), "it serves")
    assert not running.done()
    return running


async def test_a_first_look_that_fails_as_nobody_foresaw_keeps_nobody_out(
    unserved: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise KeyError("lab.small")

    monkeypatch.setattr(unserved.service.reconciler, "start", broken)
    await serve(unserved)
    assert (await unserved.ask("GET", "/v1/jobs")).status == 200
    assert "initial reconcile pass failed" in caplog.text
    assert "lab.small" in caplog.text


class SlowDisk:
    """Delays slow steps of a controller until the test continues them: deleting folders, moving a log."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.go_on = threading.Event()
        self._error = error

    def prune_hosts(self, _folder: Path, _in_use: Collection[str], _before: float) -> list[str]:
        self._take_long()
        return []

    def checkpoint(self) -> bool:
        self._take_long()
        return True

    def _take_long(self) -> None:
        self.asked += 1
        self.go_on.wait(30)
        if self._error is not None:
            raise self._error


def looks_at_jobs(world: World, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Let reconcile passes run many times a second; return a list that grows with each pass."""
    looks: list[None] = []
    tick = world.service.reconciler.tick

    def counted() -> None:
        looks.append(None)
        tick()

    monkeypatch.setattr(server, "TICK", 0.01)
    monkeypatch.setattr(world.service.reconciler, "tick", counted)
    return looks


async def test_nobody_waits_while_old_folders_are_thrown_away_and_it_is_done_once_at_a_time(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(retention, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(retention, "CLEAN_FIRST", 0.0)
    monkeypatch.setattr(retention, "CLEAN_EVERY", 0.0)
    looks = looks_at_jobs(unserved, monkeypatch)
    try:
        await serve(unserved)
        await eventually(lambda: disk.asked == 1, "it has begun")
        looks.clear()
        await eventually(lambda: len(looks) > 5, "jobs are looked at meanwhile")
        assert disk.asked == 1
    finally:
        disk.go_on.set()
    await eventually(lambda: disk.asked > 1, "it is done again")


async def test_folders_of_hosts_go_also_where_an_engine_has_its_own(
    unserved: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unserved.engine.folder = tmp_path / "elsewhere"
    looked: set[Path] = set()
    monkeypatch.setattr(retention, "prune_hosts", lambda place, *_: looked.add(place) or [])
    monkeypatch.setattr(retention, "CLEAN_FIRST", 0.0)
    monkeypatch.setattr(retention, "CLEAN_EVERY", 0.0)
    monkeypatch.setattr(server, "TICK", 0.01)
    await serve(unserved)
    await eventually(lambda: looked == {tmp_path / "clusters"}, "there is nothing of the engine's yet")
    await unserved.ask("POST", "/v1/jobs", unserved.wish())
    await eventually(lambda: looked == {tmp_path / "clusters", tmp_path / "elsewhere"}, "there is by now")


async def test_who_starts_a_controller_does_not_wait_for_old_folders(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    disk.go_on.set()
    monkeypatch.setattr(retention, "prune_hosts", disk.prune_hosts)
    looks = looks_at_jobs(unserved, monkeypatch)
    await serve(unserved)
    await eventually(lambda: len(looks) > 5, "jobs are looked at")
    assert disk.asked == 0


async def test_what_goes_wrong_with_old_folders_is_said_and_tried_again(
    unserved: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SlowDisk(RuntimeError("a strange disk"))
    disk.go_on.set()
    monkeypatch.setattr(retention, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(retention, "CLEAN_FIRST", 0.0)
    monkeypatch.setattr(retention, "CLEAN_EVERY", 0.0)
    monkeypatch.setattr(server, "TICK", 0.01)
    running = await serve(unserved)
    await eventually(lambda: caplog.text.count("a strange disk") > 1, "it is said twice")
    assert not running.done()


async def test_a_controller_that_ends_leaves_no_cleaning_behind(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(retention, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(retention, "CLEAN_FIRST", 0.0)
    try:
        running = await serve(unserved)
        await eventually(lambda: disk.asked == 1, "it has begun")
        unserved.stop.set()
        await asyncio.wait_for(running, 10)
        assert "cleaning" not in {task.get_name() for task in asyncio.all_tasks()}
    finally:
        disk.go_on.set()


# The write-ahead log


def has_in_the_file(world: World, jobs: int) -> bool:
    """Return True if the records have that many jobs without their write-ahead log."""
    with closing(sqlite3.connect(f"{(world.folder / 'smx.sqlite').as_uri()}?immutable=1", uri=True)) as raw:
        try:
            tables = raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'jobs'").fetchone()
            return tables == (1,) and raw.execute("SELECT count(*) FROM jobs").fetchone() == (jobs,)
        except sqlite3.DatabaseError:  # half of the log's pages are moved: without its locks the file is inconsistent
            return False


async def test_the_write_ahead_log_is_moved_into_the_records_when_nobody_writes(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TICK", 0.01)
    await serve(unserved)
    for many in (50, 100):
        unserved.books.save(jobs=[finished(n) for n in range(many - 50, many)])
        await eventually(lambda: has_in_the_file(unserved, many))  # noqa: B023 - it waits for this one


async def test_nobody_waits_while_the_log_is_moved_and_it_is_done_once_at_a_time(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(unserved.service.store, "checkpoint", disk.checkpoint)
    looks = looks_at_jobs(unserved, monkeypatch)
    try:
        await serve(unserved)
        unserved.books.save(jobs=[finished(1)])
        await eventually(lambda: disk.asked == 1, "it has begun")
        unserved.books.save(jobs=[finished(2)])
        looks.clear()
        await eventually(lambda: len(looks) > 5, "jobs are looked at meanwhile")
        assert disk.asked == 1
    finally:
        disk.go_on.set()
    await eventually(lambda: disk.asked == 2, "what was written meanwhile is moved, too")
    looks.clear()
    await eventually(lambda: len(looks) > 5, "more looks")
    assert disk.asked == 2, "there is nothing to move"


async def test_a_log_that_cannot_be_moved_is_said_and_moved_when_it_can_be(
    unserved: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    moving = unserved.service.store.checkpoint
    disk = SlowDisk(RecordsError("The disk is full."))
    disk.go_on.set()
    monkeypatch.setattr(unserved.service.store, "checkpoint", disk.checkpoint)
    monkeypatch.setattr(server, "TICK", 0.01)
    running = await serve(unserved)
    unserved.books.save(jobs=[finished(1)])
    await eventually(lambda: caplog.text.count("The disk is full.") > 1, "it is said twice")
    assert not running.done()
    monkeypatch.setattr(unserved.service.store, "checkpoint", moving)
    await eventually(lambda: has_in_the_file(unserved, 1))


async def test_the_files_of_one_job_that_a_disk_refuses_keep_no_other_job_from_its_files(
    unserved: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stager = unserved.service._output_stager
    write, first = stager.write_job_files, finished(1)

    def refuse_first(job: Job) -> None:
        if job.id == first.id:
            raise OSError(errno.EIO, "Input/output error")
        write(job)

    monkeypatch.setattr(stager, "write_job_files", refuse_first)
    unserved.service._write_job_files([first, finished(2)])
    assert "Input/output error" in caplog.text
    assert stager.folder(finished(2).id).cell.exists()


async def test_a_controller_that_ends_answers_no_request_of_an_open_connection(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    async def drain(_limit: float) -> None:
        await go_on.wait()

    monkeypatch.setattr(unserved.service.reconciler.cluster_reconciler, "drain_releases", drain)
    running = await serve(unserved)
    connection = Unix(unserved.socket)

    def exchange() -> Answer:
        connection.request("GET", "/v1/jobs")
        return Answer(connection.getresponse())

    try:
        assert (await asyncio.to_thread(exchange)).status == 200
        unserved.stop.set()
        await eventually(lambda: not unserved.socket.exists(), "it is about to end")
        refused = await asyncio.to_thread(exchange)
    finally:
        connection.close()
        go_on.set()
    assert controller_launch_errors.is_fenced(refused.status, refused.content)
    assert refused.headers["Connection"] == "close"
    await running

"""The service around the core: what goes wrong in it, or takes long, keeps nobody from their jobs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest_asyncio
from serving import World

from jupyter_smx.controller import service
from jupyter_smx.controller.identity import Door
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

    import pytest


@pytest_asyncio.fixture
async def unserved(tmp_path: Path) -> AsyncIterator[World]:
    """Give a controller that nobody runs yet, and end it after the test."""
    world = World(tmp_path)
    async with world.agent:
        yield world
        world.stop.set()
        await asyncio.gather(*(t for t in asyncio.all_tasks() if t.get_name() == "service"), return_exceptions=True)


async def serve(world: World) -> asyncio.Task[None]:
    running = asyncio.create_task(world.service.run(Door(world.socket), world.stop), name="service")
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
    assert "A first look at everything failed" in caplog.text
    assert "lab.small" in caplog.text


class SlowDisk:
    """Takes as long as it is told to throw folders of hosts away."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.go_on = threading.Event()
        self._error = error

    def prune_hosts(self, _folder: Path, _in_use: Collection[str], _before: float) -> list[str]:
        self.asked += 1
        self.go_on.wait(30)
        if self._error is not None:
            raise self._error
        return []


def looks_at_jobs(world: World, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Have everything looked at many times a second, and give a list that grows with each look."""
    looks: list[None] = []
    tick = world.service.reconciler.tick

    def counted() -> None:
        looks.append(None)
        tick()

    monkeypatch.setattr(service, "TICK", 0.01)
    monkeypatch.setattr(world.service.reconciler, "tick", counted)
    return looks


async def test_nobody_waits_while_old_folders_are_thrown_away_and_it_is_done_once_at_a_time(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(service, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(service, "CLEAN_FIRST", 0.0)
    monkeypatch.setattr(service, "CLEAN_EVERY", 0.0)
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


async def test_who_starts_a_controller_does_not_wait_for_old_folders(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    disk.go_on.set()
    monkeypatch.setattr(service, "prune_hosts", disk.prune_hosts)
    looks = looks_at_jobs(unserved, monkeypatch)
    await serve(unserved)
    await eventually(lambda: len(looks) > 5, "jobs are looked at")
    assert disk.asked == 0


async def test_what_goes_wrong_with_old_folders_is_said_and_tried_again(
    unserved: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SlowDisk(RuntimeError("a strange disk"))
    disk.go_on.set()
    monkeypatch.setattr(service, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(service, "CLEAN_FIRST", 0.0)
    monkeypatch.setattr(service, "CLEAN_EVERY", 0.0)
    monkeypatch.setattr(service, "TICK", 0.01)
    running = await serve(unserved)
    await eventually(lambda: caplog.text.count("a strange disk") > 1, "it is said twice")
    assert not running.done()


async def test_a_controller_that_ends_leaves_no_cleaning_behind(
    unserved: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(service, "prune_hosts", disk.prune_hosts)
    monkeypatch.setattr(service, "CLEAN_FIRST", 0.0)
    try:
        running = await serve(unserved)
        await eventually(lambda: disk.asked == 1, "it has begun")
        unserved.stop.set()
        await asyncio.wait_for(running, 10)
        assert "cleaning" not in {task.get_name() for task in asyncio.all_tasks()}
    finally:
        disk.go_on.set()

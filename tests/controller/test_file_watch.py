"""A controller whose socket, lock or data folder is deleted by another program."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from serving import World

from jupyter_smx.controller import file_watch, server
from jupyter_smx.controller.file_watch import FileIdentities, FileWatch, Loss, find_loss
from jupyter_smx.controller.singleton import ListenSocket
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WHOLE = FileIdentities(folder=(1, 1), records=(1, 2), lock=(1, 3))


@pytest.mark.parametrize(
    ("changes", "is_published", "loss"),
    [
        ({}, True, None),
        ({}, False, Loss.SOCKET),
        ({"lock": None}, False, Loss.LOCK),
        ({"lock": (1, 9)}, True, Loss.LOCK),
        ({"records": (1, 9)}, True, Loss.LOCK),
        ({"records": None}, True, Loss.DATA),
        ({"lock": None, "records": None}, False, Loss.DATA),
        ({"folder": None, "lock": None, "records": None}, False, Loss.DATA),
        ({"folder": (1, 9)}, True, Loss.DATA),
    ],
)
def test_the_worst_loss_is_found(changes: dict[str, Any], is_published: bool, loss: Loss | None) -> None:
    now = FileIdentities(**{"folder": WHOLE.folder, "records": WHOLE.records, "lock": WHOLE.lock} | changes)
    assert find_loss(WHOLE, now, is_published=is_published) is loss


def test_what_was_not_there_at_the_start_is_not_missed(tmp_path: Path) -> None:
    watch = FileWatch(tmp_path)
    assert watch.find_loss(is_published=True) is None


def test_a_file_system_that_does_not_answer_has_lost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (file_watch.LOCK, file_watch.RECORDS):
        (tmp_path / name).touch()
    watch = FileWatch(tmp_path)

    def stale(*_: Any, **__: Any) -> Any:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.stat", stale)
        assert watch.find_loss(is_published=True) is None
    (tmp_path / file_watch.LOCK).unlink()
    assert watch.find_loss(is_published=True) is Loss.LOCK


@pytest_asyncio.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[World, asyncio.Task[None]]]:
    monkeypatch.setattr(server, "TICK", 0.01)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / file_watch.LOCK).touch()
    world = World(folder)
    async with world.agent:
        task = asyncio.create_task(world.service.run(ListenSocket(world.socket), world.stop))
        await eventually(world.socket.exists, "it listens")
        yield world, task
        world.stop.set()
        await asyncio.wait([task], timeout=30)
    assert task.done()


async def test_a_deleted_socket_is_bound_again_and_no_descriptor_stays(
    running: tuple[World, asyncio.Task[None]],
) -> None:
    world, task = running
    for _ in range(3):
        world.socket.unlink()
        await eventually(world.socket.exists, "it listens again")
        assert (await world.ask("GET", "/v1/jobs")).status == 200
    assert len(world.service.server._sockets) == 1
    assert not task.done()


async def test_a_socket_whose_name_is_another_file_is_bound_again(running: tuple[World, asyncio.Task[None]]) -> None:
    world, _task = running
    world.socket.unlink()
    world.socket.touch()
    await eventually(world.socket.is_socket, "it listens again")
    assert (await world.ask("GET", "/v1/jobs")).status == 200


def test_a_socket_that_cannot_get_its_name_leaves_no_file(short_folder: Path) -> None:
    bound = ListenSocket(short_folder / "s")
    bound.publish()
    bound.path.unlink()
    bound.path.mkdir()  # no file can take this name
    for _ in range(3):
        bound.rebind().close()
        with pytest.raises(OSError, match="directory"):
            bound.publish()
    assert [path.name for path in short_folder.iterdir()] == ["s"]
    (short_folder / "s").rmdir()
    bound.rebind().close()
    bound.publish()
    assert bound.is_published()
    bound.close()


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_controller_without_its_lock_leaves_and_its_agents_go_on(
    running: tuple[World, asyncio.Task[None]], is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, task = running
    ended: list[float] = []
    monkeypatch.setattr(world.service._agents, "end_all", ended.append)
    lock = world.folder / file_watch.LOCK
    lock.rename(lock.with_name("old"))
    if is_replaced:
        lock.touch()
    await asyncio.wait_for(task, 30)
    assert ended == []
    assert not world.socket.exists()


class SocketOfLateCleanup(ListenSocket):
    """A socket at whose publication another program deletes the lock."""

    def publish(self) -> None:
        super().publish()
        (self.path.parent / file_watch.LOCK).unlink(missing_ok=True)


async def test_a_lock_that_is_deleted_before_the_first_pass_is_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TICK", 0.01)
    (tmp_path / file_watch.LOCK).touch()
    world = World(tmp_path)
    async with world.agent:
        await asyncio.wait_for(world.service.run(SocketOfLateCleanup(tmp_path / "s"), world.stop), 30)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("names", [[""], [file_watch.LOCK, file_watch.RECORDS]])
async def test_a_controller_without_its_data_folder_ends_its_agents_and_leaves(
    running: tuple[World, asyncio.Task[None]], names: list[str]
) -> None:
    world, task = running
    assert (await world.submit(1)).status == 201
    world.engine.gate.set()
    await world.agent.heard("run")
    for name in names:
        path = world.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    await asyncio.wait_for(task, 30)
    assert await world.agent.heard("end")

"""Before a host is launched, the engine tests whether containers share folders, users and sockets with the machine."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fake_dockerd import IMAGE, answer, end, room, serving

from jupyter_smx.engines.docker.daemon import users
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.preflight import Preflight


class World:
    """A daemon, and what its containers do."""

    def __init__(self, daemon: FakeDockerd, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder
        self.under_way: set[str] = set()

    def ground(self, seconds: float = 5.0) -> Preflight:
        from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
        from jupyter_smx.engines.docker.daemon.users import ContainerUser  # noqa: PLC0415 - beside it
        from jupyter_smx.engines.docker.preflight import Preflight  # noqa: PLC0415 - the same

        folders, daemon = ClusterFolders(self.folder), Daemon(self.daemon.url, 5.0)
        return Preflight(daemon, folders, {"mine": "1"}, ContainerUser(""), self.under_way, seconds)

    def is_clean(self) -> bool:
        left = [*self.daemon.containers, *self.under_way, *(self.folder / "clusters").iterdir()]
        return left == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with serving(tmp_path / "d.sock", answer) as daemon:
        yield World(daemon, tmp_path / "it's\na folder")


async def check(ground: Preflight) -> None:
    from jupyter_smx.engines.docker.images.image import InspectedImage  # noqa: PLC0415 - imports Docker's library

    await ground.check(InspectedImage(IMAGE, "python3"))


async def refused(world: World, ground: Preflight) -> RefusedError:
    with pytest.raises(RefusedError) as told:
        await check(ground)
    assert told.value.field == "docker_host"
    assert told.value.value == world.daemon.url
    assert told.value.rule
    assert "DOCKER_HOST" in told.value.cure
    assert world.is_clean()
    return told.value


async def test_it_is_tried_once_and_nothing_of_it_stays(world: World) -> None:
    ground = world.ground()
    await check(ground)
    await check(ground)
    assert sum("/containers/create" in one for one in world.daemon.asked) == 1
    assert world.is_clean()


async def test_it_is_tried_as_a_host_lives(world: World) -> None:
    seen: list[dict[str, Any]] = []

    def live(container: dict[str, Any]) -> None:
        seen.append(container["config"])
        assert room(container).stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_uid for path in (room(container), room(container) / "token")} == {
            os.getuid() or users.unused_id()
        }
        answer(container)

    world.daemon.live = live
    await check(world.ground())
    [config] = seen
    somebody = f"{users.unused_id()}:{users.unused_id()}"
    assert config["User"] == (f"{os.getuid()}:{os.getgid()}" if os.getuid() else somebody)
    assert config["HostConfig"]["CapDrop"] == ["ALL"]
    assert config["HostConfig"]["ReadonlyRootfs"] is True
    assert config["HostConfig"]["Mounts"][0]["Target"] == "/run/smx"
    assert config["Labels"] == {"mine": "1", "jupyter-smx.probe": str(os.getpid())}
    assert config["HostConfig"]["LogConfig"]["Config"] == {"max-size": "1m"}


async def test_a_container_that_ends_says_why(world: World) -> None:
    def live(container: dict[str, Any]) -> None:
        end(container, 1, "PermissionError: [Errno 13] Permission denied: 'token'\n")

    world.daemon.live = live
    told = await refused(world, world.ground())
    assert "(PermissionError: [Errno 13] Permission denied: 'token')" in told.message
    assert "virtual" in told.cure


async def test_a_daemon_that_maps_users_is_told_so(world: World) -> None:
    world.daemon.live = lambda container: end(container, 1, "PermissionError")
    world.daemon.info = {"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}
    assert "userns-remap" in (await refused(world, world.ground())).cure


async def test_a_folder_that_the_daemon_does_not_see_is_told_in_its_words(world: World) -> None:
    world.daemon.refuses["POST /containers/create"] = (400, "bind source path does not exist: /somewhere")
    assert "bind source path does not exist" in (await refused(world, world.ground())).message


async def test_a_folder_of_the_same_name_elsewhere_is_not_ours(world: World) -> None:
    world.daemon.live = lambda container: end(container, 1, "FileNotFoundError: 'token'\n")
    assert "(FileNotFoundError: 'token')" in (await refused(world, world.ground())).message


async def test_a_container_that_takes_too_long_says_nothing_of_the_ground_and_may_be_tried_again(world: World) -> None:
    """For example because the machine unpacks images: waiting jobs are not refused for good."""
    world.daemon.live = lambda _container: None
    with pytest.raises(RefusedError, match=r"took longer than 100 ms") as told:
        await check(world.ground(0.1))
    assert (told.value.field, told.value.transient) == ("docker_host", True)
    assert "do not share" not in told.value.message
    assert world.is_clean()
    world.daemon.live = answer
    await check(world.ground())


async def test_a_socket_that_nobody_can_reach_is_told(world: World) -> None:
    world.daemon.live = lambda container: answer(container, listens=False)
    assert "its socket is unreachable" in (await refused(world, world.ground())).message


async def test_a_socket_of_somebody_else_is_told(world: World) -> None:
    world.daemon.live = lambda container: answer(container, token="another")  # noqa: S106 - no secret
    assert "another process answers" in (await refused(world, world.ground())).message


async def test_a_daemon_that_cannot_now_says_nothing_of_the_ground(world: World) -> None:
    world.daemon.refuses["POST /containers/create"] = (503, "it is just starting")
    ground = world.ground()
    with pytest.raises(UnavailableError, match="it is just starting") as told:
        await check(ground)
    assert told.value.transient
    assert world.is_clean()
    world.daemon.refuses.clear()
    await check(ground)


@pytest.mark.parametrize("what", ["ground", "image"])
async def test_who_gives_up_while_the_container_is_made_leaves_none(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The daemon makes it only after the caller was cancelled."""
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library
    from jupyter_smx.engines.docker.images.image import Images  # noqa: PLC0415 - the same

    monkeypatch.setattr(Images, "cache", {})
    asked, go, sought = (threading.Event() for _ in range(3))
    answer_to = world.daemon.answer

    def slow(question: str, body: dict[str, Any]) -> tuple[int, object]:
        if "/containers/create" in question:
            asked.set()
            go.wait(20)
        elif question.startswith("DELETE"):
            sought.set()
        return answer_to(question, body)

    monkeypatch.setattr(world.daemon, "answer", slow)
    images = Images(Daemon(world.daemon.url, 5.0), {}, lambda: "1:1")
    look = images.inspect("train:1", lambda _words: None) if what == "image" else check(world.ground())
    looking = asyncio.create_task(look)  # type: ignore[arg-type]  # either of two coroutines
    await asyncio.to_thread(asked.wait, 20)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert sought.is_set(), "nobody looked for what may have been made"
    go.set()
    removed = lambda: sum(one.startswith("DELETE") for one in world.daemon.asked) == 2  # noqa: E731 - one line is enough
    await eventually(removed, "what was made late is removed", within=20)
    assert any("/containers/create" in one for one in world.daemon.asked)
    assert world.daemon.containers == {}
    assert world.under_way == images.under_way == set()

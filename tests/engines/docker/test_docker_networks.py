"""The network of a cluster: made once, while its containers are made, and never removed while it is being made."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import fake_engine
import pytest
from fake_engine import end_of, up, wanted
from msgspec.structs import replace

from jupyter_smx.engines.docker.containers.isolation import SHARED_NETWORK
from jupyter_smx.engines.docker.daemon import resolver
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from fake_dockerd import FakeDockerd

    from jupyter_smx.engines.docker.engine import DockerEngine

NO_ROOM = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"


def engine_at(daemon: FakeDockerd, folder: Path, **traits: Any) -> DockerEngine:
    """Return an engine whose clusters of one host have a network, too, unless a test says otherwise."""
    return fake_engine.engine_at(daemon, folder, **{"separate_network": True, **traits})


@pytest.fixture
def made(daemon: FakeDockerd, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until this event is set, let the daemon list a network that it still makes; a removal then leaves half of one."""
    answer, made = daemon.answer, threading.Event()

    def slow(what: str, body: dict[str, Any]) -> tuple[int, object]:
        said = answer(what, body)
        if "/networks/create" in what:
            made.wait(30)
        elif what.startswith("DELETE") and "/networks/" in what and not made.is_set():
            daemon.networks["half"] = {"Id": "half", "Name": "half", "Labels": {}}
        return said

    monkeypatch.setattr(daemon, "answer", slow)
    yield made
    made.set()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set when a task waits for a lock that another one has."""
    take, waits = file_lock.try_lock, threading.Event()

    def look(descriptor: int) -> bool:
        taken = take(descriptor)
        if not taken:
            waits.set()
        return taken

    monkeypatch.setattr(file_lock, "try_lock", look)
    return waits


@pytest.mark.usefixtures("inspected_image")
async def test_a_cluster_has_a_network_of_its_own_and_gives_it_back(daemon: FakeDockerd, tmp_path: Path) -> None:
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted(3))
    assert [*daemon.networks] == ["jupyter-smx-c1"]
    assert len(handle.hosts) == 3
    assert sum(one.startswith("POST /networks/create") for one in daemon.asked) == 1
    joined = [one["networks"] for one in daemon.containers.values()]
    assert [[*one] for one in joined] == [["jupyter-smx-c1"]] * 3
    assert sorted(one["jupyter-smx-c1"]["Aliases"] for one in joined) == [["algo-1"], ["algo-2"], ["algo-3"]]
    await engine.release(handle)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_a_host_has_dockers_name_of_the_machine_unless_the_daemon_has_no_address_for_it(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.info["ServerVersion"] = "24.0.7"
    name = "host.docker.internal:host-gateway"
    handle = await up(engine_at(daemon, tmp_path), wanted())
    [container] = daemon.containers.values()
    assert container["config"]["HostConfig"]["ExtraHosts"] == [name]
    await engine_at(daemon, tmp_path).release(handle)

    answer = daemon.answer

    def without_bridge(what: str, body: dict[str, Any]) -> tuple[int, object]:
        named = any("ExtraHosts" in one["config"]["HostConfig"] for one in daemon.containers.values())
        if what.endswith("/start") and named:
            return 500, {"message": "unable to derive the IP value for host-gateway"}
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", without_bridge)
    handle = await up(engine_at(daemon, tmp_path / "other"), wanted())
    [container] = daemon.containers.values()
    assert "ExtraHosts" not in container["config"]["HostConfig"]
    await engine_at(daemon, tmp_path / "other").release(handle)


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize("words", [NO_ROOM, "all predefined address pools have been fully subnetted"])
async def test_where_there_is_no_room_for_a_network_one_host_does_without_and_several_do_not(
    daemon: FakeDockerd, tmp_path: Path, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    daemon.refuses["POST /networks/create"] = (500, words)
    engine = engine_at(daemon, tmp_path)
    handle = await up(engine, wanted())
    [container] = daemon.containers.values()
    assert [*container["networks"]] == ["bridge"]
    assert words in caplog.text
    assert [one.given_up for one in handle.hosts] == [(SHARED_NETWORK,)]
    again = await engine_at(daemon, tmp_path).find("c1")
    assert again == handle, "a new controller says the same"
    del daemon.refuses["POST /networks/create"]
    again = await up(engine_at(daemon, tmp_path), wanted())
    assert ([*container["networks"]], again) == (["bridge"], handle), "also where there is room by now"
    await engine.release(handle)
    daemon.refuses["POST /networks/create"] = (500, words)
    with pytest.raises(UnavailableError, match="did not get its network") as told:
        await up(engine_at(daemon, tmp_path / "other"), wanted(2))
    assert "docker network prune" in told.value.cure
    assert daemon.containers == {}


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize("podman", [False, True])
async def test_a_network_and_who_joins_it_are_made_side_by_side_but_by_podman(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, podman: bool
) -> None:
    answer, made, looks = daemon.answer, threading.Event(), []

    def slow(what: str, body: dict[str, Any]) -> tuple[int, object]:
        if "/networks/create" in what:
            looks.append(made.wait(0.2 if podman else 30))
        if "/containers/create" in what:
            made.set()
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", slow)
    engine = engine_at(daemon, tmp_path)
    if podman:
        daemon.info |= {"BuildahVersion": "1.39", "ServerVersion": "5.4.0"}
    await engine.release(await up(engine, wanted()))
    assert looks == [not podman]


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves by itself"])
async def test_a_network_is_taken_away_from_who_was_let_into_it(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, leaves: bool
) -> None:
    engine, answer = engine_at(daemon, tmp_path), daemon.answer
    handle = await up(engine, wanted())
    mine: dict[str, Any] = {"networks": {"jupyter-smx-c1": {}}, "config": {"Labels": {}}, "state": {}}
    mine["state"] = {"Status": "running"}
    daemon.containers["debug"] = mine

    def at_that_moment(what: str, body: dict[str, Any]) -> tuple[int, object]:
        if leaves and what.endswith("/disconnect"):
            del daemon.containers["debug"]
            return 404, {"message": "no such container"}
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", at_that_moment)
    await engine.release(handle)
    assert (daemon.networks, [*daemon.containers]) == ({}, [] if leaves else ["debug"])
    assert leaves or mine["networks"] == {}


@pytest.mark.usefixtures("inspected_image")
async def test_another_no_to_a_network_is_no_reason_to_share_one(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.refuses["POST /networks/create"] = (403, "not today")
    with pytest.raises(UnavailableError, match="did not get its network: not today"):
        await up(engine_at(daemon, tmp_path), wanted())
    assert daemon.containers == {}


@pytest.mark.usefixtures("inspected_image")
async def test_a_release_waits_for_a_network_that_is_still_made(
    daemon: FakeDockerd, tmp_path: Path, made: threading.Event, waits: threading.Event
) -> None:
    launch = asyncio.create_task(end_of(up(engine_at(daemon, tmp_path), wanted())))
    await eventually(lambda: daemon.networks, "the daemon makes it")
    release = asyncio.create_task(engine_at(daemon, tmp_path).release(Handle(engine="docker", cluster="c1")))
    await eventually(lambda: release.done() or waits.is_set(), "it cannot be removed yet")
    assert [*daemon.networks] == ["jupyter-smx-c1"]
    made.set()
    await release
    assert isinstance(await launch, UnavailableError)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_a_network_that_is_made_for_ever_is_told_and_left_to_the_next_release(
    daemon: FakeDockerd, tmp_path: Path, made: threading.Event
) -> None:
    launch = asyncio.create_task(end_of(up(engine_at(daemon, tmp_path), wanted())))
    await eventually(lambda: daemon.networks and daemon.containers, "the daemon makes it, and a container beside it")
    engine, handle = engine_at(daemon, tmp_path, release_timeout=0.1), Handle(engine="docker", cluster="c1")
    with pytest.raises(UnavailableError, match=r"still being made after 100 ms") as told:
        await engine.release(handle)
    assert told.value.transient
    assert daemon.containers == {}
    made.set()
    await launch
    await engine.release(handle)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_who_waits_for_a_network_takes_no_thread_of_others(
    daemon: FakeDockerd, tmp_path: Path, made: threading.Event, waits: threading.Event
) -> None:
    launch = asyncio.create_task(end_of(up(engine_at(daemon, tmp_path), wanted())))
    await eventually(lambda: daemon.networks, "the daemon makes it")
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        release = asyncio.create_task(engine_at(daemon, tmp_path).release(Handle(engine="docker", cluster="c1")))
        await eventually(waits.is_set, "it waits")
        await asyncio.wait_for(asyncio.to_thread(waits.clear), 5)
        made.set()
        await asyncio.gather(release, launch)


@pytest.mark.usefixtures("inspected_image")
async def test_a_network_is_not_made_behind_a_release(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch may be slow before it takes the lock, and get it after the release found it free."""
    hold, begun, goes_on = file_lock.acquire, threading.Event(), threading.Event()

    def slow(path: Path, gives_up: Callable[[], bool]) -> AbstractContextManager[bool]:
        if not begun.is_set():
            begun.set()
            goes_on.wait(30)
        return hold(path, gives_up)

    monkeypatch.setattr(file_lock, "acquire", slow)
    launch = asyncio.create_task(end_of(up(engine_at(daemon, tmp_path), wanted())))
    await eventually(begun.is_set, "somebody wants the lock")
    await engine_at(daemon, tmp_path).release(Handle(engine="docker", cluster="c1"))
    goes_on.set()
    assert "released meanwhile" in str(await launch)
    assert not [one for one in daemon.asked if one.startswith("POST /networks/create")]
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_a_host_is_there_when_it_has_its_network(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a job in it would reach no other host."""
    answer, hosts = daemon.answer, []

    def look(what: str, body: dict[str, Any]) -> tuple[int, object]:
        if what.endswith("/connect"):
            hosts.append(handle)
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", look)
    handle = Handle(engine="docker", cluster="")
    async for handle in engine_at(daemon, tmp_path).acquire(wanted()):  # noqa: B007 - looked at above
        pass
    assert [one.hosts for one in hosts] == [()]
    assert len(handle.hosts) == 1


@pytest.mark.usefixtures("inspected_image")
async def test_a_host_without_its_network_is_none(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.refuses["POST /networks/jupyter-smx-c1/connect"] = (500, "not today")
    with pytest.raises(UnavailableError, match=r"could not be started \(not today\)"):
        await up(engine_at(daemon, tmp_path), wanted())
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
@pytest.mark.parametrize(("network", "given_up"), [("jupyter-smx-c1", ()), ("bridge", (SHARED_NETWORK,))])
async def test_a_launch_that_a_controller_did_not_end_is_ended_by_the_next_one(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: str, given_up: tuple[str, ...]
) -> None:
    """Even if the launch continued without a network of its own, and in the same container, whose agent has started."""
    if network == "bridge":
        daemon.refuses["POST /networks/create"] = (500, NO_ROOM)
    answer, reached, goes_on = daemon.answer, threading.Event(), threading.Event()

    def stuck(what: str, body: dict[str, Any]) -> tuple[int, object]:
        if what.endswith("/connect") and not reached.is_set():
            reached.set()
            goes_on.wait(30)
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", stuck)
    first = asyncio.create_task(end_of(up(engine_at(daemon, tmp_path), wanted())))
    await eventually(reached.is_set, "it is about to join its network")
    second = asyncio.create_task(up(engine_at(daemon, tmp_path), wanted()))
    await eventually(lambda: sum("/containers/create" in one for one in daemon.asked) > 1, "another one does the same")
    goes_on.set()
    handle = await second
    assert await first is None
    assert [[*one["networks"]] for one in daemon.containers.values()] == [[network]]
    assert [one.given_up for one in handle.hosts] == [given_up]
    assert (
        sum("disconnect" in one for one in daemon.asked) == sum(one.endswith("/connect") for one in daemon.asked) == 1
    )
    await engine_at(daemon, tmp_path).release(handle)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.fixture
def default_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let containers reach the machine's name servers in the default network."""
    monkeypatch.setattr(resolver, "are_name_servers_reachable", lambda: True)


def default_engine_at(daemon: FakeDockerd, folder: Path) -> DockerEngine:
    return engine_at(daemon, folder, separate_network=False)


@pytest.mark.usefixtures("inspected_image", "default_network")
async def test_a_single_host_joins_the_default_network_which_stays(daemon: FakeDockerd, tmp_path: Path) -> None:
    handle = await up(default_engine_at(daemon, tmp_path), wanted())
    [container] = daemon.containers.values()
    assert [*container["networks"]] == ["bridge"]
    assert [one.given_up for one in handle.hosts] == [()], "the configuration wants it, so it is no limitation"
    assert await default_engine_at(daemon, tmp_path).find("c1") == handle
    await default_engine_at(daemon, tmp_path).release(handle)
    assert daemon.containers == {}
    changes = [one for one in daemon.asked if "/networks/" in one and not one.startswith("GET")]
    assert [one.rpartition("/")[2] for one in changes] == ["disconnect", "connect"]


@pytest.mark.usefixtures("inspected_image", "default_network")
async def test_without_a_default_network_a_single_host_has_a_separate_one(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.refuses["POST /networks/bridge/connect"] = (404, "network bridge not found")
    handle = await up(default_engine_at(daemon, tmp_path), wanted())
    [container] = daemon.containers.values()
    assert container["networks"] == {"jupyter-smx-c1": {"Aliases": ["algo-1"]}}
    assert [one.given_up for one in handle.hosts] == [()]
    await default_engine_at(daemon, tmp_path).release(handle)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image", "default_network")
async def test_a_default_network_that_refuses_is_no_reason_for_another(daemon: FakeDockerd, tmp_path: Path) -> None:
    daemon.refuses["POST /networks/bridge/connect"] = (403, "not today")
    with pytest.raises(UnavailableError, match=r"could not be started \(not today\)"):
        await up(default_engine_at(daemon, tmp_path), wanted())
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image", "default_network")
async def test_a_pool_with_a_network_of_an_earlier_version_continues(daemon: FakeDockerd, tmp_path: Path) -> None:
    handle = await up(engine_at(daemon, tmp_path), wanted())
    now = default_engine_at(daemon, tmp_path)
    assert await now.find("c1") == handle
    assert await up(now, wanted()) == handle
    await now.release(handle)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image", "default_network")
async def test_a_separate_network_that_is_configured_later_is_for_new_hosts(
    daemon: FakeDockerd, tmp_path: Path
) -> None:
    handle = await up(default_engine_at(daemon, tmp_path), wanted())
    now = engine_at(daemon, tmp_path)
    assert await now.find("c1") == handle
    assert await up(now, wanted()) == handle
    new = await up(now, replace(wanted(), cluster="c2"))
    assert [[*one["networks"]] for one in daemon.containers.values()] == [["bridge"], ["jupyter-smx-c2"]]
    for one in (handle, new):
        await now.release(one)
    assert (daemon.containers, daemon.networks) == ({}, {})


@pytest.mark.usefixtures("inspected_image")
async def test_a_single_host_has_a_separate_network_where_the_default_one_lacks_the_name_servers(
    daemon: FakeDockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "are_name_servers_reachable", lambda: False)
    handle = await up(default_engine_at(daemon, tmp_path), wanted())
    assert [[*one["networks"]] for one in daemon.containers.values()] == [["jupyter-smx-c1"]]
    await default_engine_at(daemon, tmp_path).release(handle)

"""How concurrent requests reach the daemon: a fake one, which answers when a test lets it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from slow_dockerd import Daemons

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.docker.containers.container_spec import ContainerPlan
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup
from jupyter_smx.model.text import format_duration
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon

MANY = 64
SLOW = 0.1
"""Seconds; with fewer threads than requests the last answer takes several times that."""
LIMIT = 0.3
ORDER = ContainerPlan(container={"Labels": {}, "HostConfig": {"NetworkMode": "none"}}, endpoint={"net_id": "n0"})


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Callable[[str], None]], Daemon]]:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    servers: list[Daemons] = []

    def start(hold: Callable[[str], None]) -> Daemon:
        servers.append(Daemons(tmp_path / "d.sock", hold))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return Daemon(f"unix://{tmp_path}/d.sock", LIMIT)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_a_queue_of_ours_is_no_silence_of_the_daemons(
    serve: Callable[[Callable[[str], None]], Daemon],
) -> None:
    """Each answer comes well within the limit, and all of them together take longer than it."""
    never = threading.Event()

    def hold(path: str) -> None:
        if path != "/version":
            never.wait(SLOW)

    daemon = serve(hold)
    assert await daemon.containers("a=b") == []  # the first request also asks for the version
    assert await asyncio.gather(*(daemon.containers("a=b") for _ in range(MANY))) == [[]] * MANY


async def test_a_daemon_that_was_updated_is_spoken_with_as_it_speaks_now(
    serve: Callable[[Callable[[str], None]], Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    daemon = serve(asked.append)
    assert await daemon.containers("a=b") == []
    monkeypatch.setattr(Daemons, "speaks", "1.44")
    assert await asyncio.gather(*(daemon.containers("a=b") for _ in range(3))) == [[]] * 3
    assert any(path.startswith("/v1.44/") for path in asked)


async def test_a_daemon_that_is_silent_is_still_told_from_a_queue(
    serve: Callable[[Callable[[str], None]], Daemon],
) -> None:
    go = threading.Event()

    def hold(_path: str) -> None:
        go.wait(20)

    daemon = serve(hold)
    with pytest.raises(UnavailableError, match=rf"did not answer within {format_duration(LIMIT)}"):
        await daemon.containers("a=b")
    go.set()


async def test_who_gives_up_a_question_takes_the_time_of_no_other(
    serve: Callable[[Callable[[str], None]], Daemon],
) -> None:
    """Its thread runs on, so the next request waits for a thread; its time limit starts only when it is sent."""
    from jupyter_smx.engines.docker.daemon.daemon_client import _MAX_THREADS  # noqa: PLC0415 - imports Docker's library

    go, put = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        if "held" in path:
            go.wait(20)
        elif "put" in path:
            put.set()

    daemon = serve(hold)
    assert await daemon.containers("a=b") == []
    ask = partial(daemon.call, lambda api: api.inspect_container("held"))
    late = [asyncio.create_task(ask()) for _ in range(_MAX_THREADS)]
    given_up = await asyncio.gather(*late, return_exceptions=True)
    assert all("did not answer within" in str(end) for end in given_up)
    next_one = asyncio.create_task(daemon.containers("put=b"))
    await asyncio.wait({next_one}, timeout=2 * LIMIT)
    assert not next_one.done()
    assert not put.is_set()
    go.set()
    assert await asyncio.wait_for(next_one, 10) == []


async def test_a_daemon_that_leaves_every_question_open_is_silent(
    serve: Callable[[Callable[[str], None]], Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:

    go = threading.Event()
    monkeypatch.setattr("jupyter_smx.engines.docker.daemon.daemon_client._THREAD_TIMEOUT", 4 * LIMIT)

    def hold(path: str) -> None:
        if path != "/version":
            go.wait(20)

    daemon = serve(hold)
    asked = [asyncio.create_task(daemon.containers("a=b")) for _ in range(MANY)]
    try:
        ends = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 15)
    finally:
        go.set()
    assert all(isinstance(end, UnavailableError) for end in ends)


async def test_starts_that_were_given_up_leave_room_for_other_questions_too(
    serve: Callable[[Callable[[str], None]], Daemon], tmp_path: Path
) -> None:
    from jupyter_smx.engines.docker.launch import ClusterLaunch  # noqa: PLC0415 - imports Docker's library

    go, at_once, most = threading.Event(), 0, 0
    counting = threading.Lock()

    def hold(path: str) -> None:
        nonlocal at_once, most
        if "/containers/create" in path:
            with counting:
                at_once += 1
                most = max(most, at_once)
            go.wait(20)
            with counting:
                at_once -= 1

    daemon = serve(hold)
    assert await daemon.containers("a=b") == []
    plans = [HostSpec(host=f"algo-{n}", group=HOMOGENEOUS, instance_type="local", vcpus=1) for n in range(24)]
    request = ClusterRequest(
        cluster="c", hosts=tuple(plans), instance_groups=(InstanceGroup(instance_count=24),), python=""
    )
    launch = ClusterLaunch(daemon, ClusterFolders(tmp_path), request, None, LIMIT)
    starting = [asyncio.create_task(launch.launch_host(plan, ORDER)) for plan in plans]
    try:
        done, _ = await asyncio.wait(starting, timeout=8 * LIMIT)
        assert len(done) == 8
        assert await asyncio.wait_for(daemon.containers("a=b"), 5) == []
    finally:
        go.set()
        ends = await asyncio.gather(*starting, return_exceptions=True)
    assert all(isinstance(end, UnavailableError) for end in ends)
    assert most == 8


async def test_hosts_that_start_leave_room_for_other_questions(
    serve: Callable[[Callable[[str], None]], Daemon], tmp_path: Path
) -> None:
    """However many clusters start, other requests are answered: only eight launches send requests at the same time."""
    from jupyter_smx.engines.docker.launch import ClusterLaunch  # noqa: PLC0415 - imports Docker's library

    asked, begun = threading.Event(), threading.Semaphore(0)

    def hold(path: str) -> None:
        if "/containers/create" in path or "/networks" in path:
            begun.release()
            asked.wait(20)

    daemon = serve(hold)
    plan = HostSpec(host="algo-1", group=HOMOGENEOUS, instance_type="local", vcpus=1)
    starting = []
    for n in range(MANY):
        request = ClusterRequest(cluster=f"c{n}", hosts=(plan,), instance_groups=(InstanceGroup(),), python="")
        network = {"Name": f"n{n}", "Driver": "bridge", "Internal": False, "Options": {}, "Labels": {}}
        (tmp_path / "clusters" / request.cluster).mkdir(parents=True)
        launch = ClusterLaunch(daemon, ClusterFolders(tmp_path), request, network, 10.0)
        starting.append(asyncio.create_task(launch.launch_host(plan, ORDER)))
    try:
        for _ in range(16):  # eight of them, with two requests each
            assert await asyncio.to_thread(begun.acquire, timeout=20)
        assert await asyncio.wait_for(daemon.containers("a=b"), 5) == []
    finally:
        asked.set()
        ends = await asyncio.gather(*starting, return_exceptions=True)
    assert all(isinstance(end, UnavailableError) and "not today" in str(end) for end in ends)


@pytest.mark.parametrize(
    ("error", "cure", "transient"),
    [
        (OSError(28, "No space left on device"), "Free some space", True),
        (OSError(122, "Disk quota exceeded"), "Free some space", True),
        (PermissionError(13, "Permission denied"), "Make it writable", False),
    ],
)
def test_where_nothing_can_be_written_the_cure_fits_the_cause(
    tmp_path: Path, error: OSError, cure: str, transient: bool
) -> None:
    told = request_validation.not_writable_error(tmp_path, error)
    assert told.cure.startswith(cure)
    assert told.transient is transient
    assert (told.field, str(error) in told.message) == ("data_dir", True)


async def test_an_image_is_looked_at_while_every_thread_is_busy(
    serve: Callable[[Callable[[str], None]], Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm start sends no other request, so it waits for no thread."""
    from jupyter_smx.engines.docker.images.image import Images, InspectedImage  # noqa: PLC0415 - imports Docker's library

    cache = InspectedImage("sha256:1", "python3")
    monkeypatch.setattr(Images, "cache", {cache.id: cache})
    go = threading.Event()

    def hold(path: str) -> None:
        if "/containers/json" in path:
            go.wait(20)

    daemon = serve(hold)
    others = [asyncio.create_task(daemon.call(lambda api: api.containers(), 20.0)) for _ in range(MANY)]
    await asyncio.sleep(0)
    try:
        images = Images(daemon, {}, lambda: "1000:1000")
        assert await asyncio.wait_for(images.inspect("a:1", lambda _words: None), 5) == cache
    finally:
        go.set()
        await asyncio.gather(*others)


async def test_a_no_is_told_from_silence_also_without_a_thread(
    serve: Callable[[Callable[[str], None]], Daemon],
) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import DaemonError  # noqa: PLC0415 - imports Docker's library

    go = threading.Event()

    def hold(path: str) -> None:
        if "silent" in path:
            go.wait(20)

    daemon = serve(hold)
    with pytest.raises(DaemonError, match="there is none") as told:
        await daemon.get("/containers/jupyter-smx-x/json")
    assert told.value.status == 404
    with pytest.raises(UnavailableError, match=rf"did not answer within {format_duration(LIMIT)}"):
        await daemon.get("/images/silent/json")
    go.set()


async def test_a_name_that_is_taken_is_a_conflict_by_whichever_number(
    serve: Callable[[Callable[[str], None]], Daemon],
) -> None:
    """Podman 4 and 5 answer 500 where Docker answers 409."""
    from jupyter_smx.engines.docker.daemon.daemon_client import CONFLICT, DaemonError  # noqa: PLC0415 - imports Docker's library

    daemon = serve(lambda _path: None)
    for name, status in (("taken", CONFLICT), ("free", 500)):
        with pytest.raises(DaemonError) as told:
            await daemon.call(lambda api, name=name: api.create_container_from_config({}, name))
        assert told.value.status == status


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "it closed the connection"),
        (b"SSH-2.0-x\r\n", "is not Docker"),
        (b"HTTP/1.0 200", "is not Docker"),
        (b"HTTP/1.0\r\n\r\n", "is not Docker"),
    ],
    ids=["nothing", "another service", "half an answer", "no number"],
)
async def test_what_is_no_answer_is_no_daemon(tmp_path: Path, said: bytes, words: str) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_unix_server(answer, tmp_path / "x.sock")
    async with server:
        with pytest.raises(UnavailableError, match=words) as told:
            await Daemon(f"unix://{tmp_path}/x.sock", 5.0).get("/images/a/json")
    assert told.value.transient


async def test_where_nobody_listens_the_system_says_why(tmp_path: Path) -> None:
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon  # noqa: PLC0415 - imports Docker's library

    with pytest.raises(UnavailableError, match="No such file or directory"):
        await Daemon(f"unix://{tmp_path}/x.sock", 5.0).get("/images/a/json")


async def test_a_daemon_that_many_wait_for_already_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A non-blocking connect fails if the queue of the socket is full, as that of a stopped daemon is."""
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon, _receive_response  # noqa: PLC0415 - imports Docker's library

    hear, turned_away = _receive_response, threading.Event()

    async def heard(where: str, path: str) -> tuple[bytes, bytes, bytes] | None:
        said = await hear(where, path)
        if said is None:
            turned_away.set()
        return said

    monkeypatch.setattr("jupyter_smx.engines.docker.daemon.daemon_client._receive_response", heard)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.fspath(tmp_path / "x.sock"))
    listener.listen(0)
    listener.settimeout(10)
    others = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for other in others:
        other.setblocking(False)
        other.connect_ex(os.fspath(tmp_path / "x.sock"))
    asked = asyncio.create_task(Daemon(f"unix://{tmp_path}/x.sock", 20.0).get("/x"))
    await eventually(lambda: asked.done() or turned_away.is_set(), "it is turned away")
    for other in others:
        other.close()

    def answer() -> None:
        while True:
            visitor = listener.accept()[0]
            with visitor:
                if visitor.recv(100):
                    visitor.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"a": 1}')
                    return

    answering = asyncio.create_task(asyncio.to_thread(answer))
    assert await asked == {"a": 1}
    await answering
    listener.close()

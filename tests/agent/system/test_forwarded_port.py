"""A port of a real agent's host leads over the controller's stream to a server at the controller's side."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.wire import encode
from jupyter_smx.controller.agents.front import FrontFolder
from jupyter_smx.controller.agents.stream import AgentStream
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.usefixtures("own_shared_memory")

PATIENCE = 30
REQUEST = """
import os, urllib.request
try:
    print(urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL_S3"] + "/bucket").read().decode())
except OSError as error:
    print(type(error).__name__)
"""
URL = 'print("URL", os.environ["AWS_ENDPOINT_URL_S3"])'
CONFIG = """
import os
path = os.environ.get("SAGEMAKER_ADMIN_CONFIG_OVERRIDE")
print(path and open(path).read())
"""
ENDLESS, ECHO, COUNT = b"E", b"C", b"N"
"""First byte of a connection to the server: bytes without end, the same bytes back, or how many there were."""


class Server:
    """A server at a unix socket; a connection with HTTP gets the head of its request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connections: set[asyncio.StreamWriter] = set()
        self.sent = 0

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def close(self) -> None:
        self._server.close()
        for writer in list(self.connections):
            writer.close()
        self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        with contextlib.suppress(OSError):
            first = await reader.read(1)
            if first == ENDLESS:
                while not writer.is_closing():
                    writer.write(bytes(65_536))
                    await writer.drain()
                    self.sent += 65_536
            elif first == ECHO:
                while data := await reader.read(65_536):
                    writer.write(data)
                    await writer.drain()
            elif first == COUNT:
                count = 0
                while data := await reader.read(65_536):
                    count += len(data)
                writer.write(b"%d" % count)
            elif first:
                head = first + await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + head)
        self.connections.discard(writer)
        writer.close()


class World:
    """An agent, and the stream of a controller that carries channels to a server here."""

    def __init__(self, agent: Agent, server: Server, port: int) -> None:
        self.agent = agent
        self.server = server
        self.port = port
        self.events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.stream: AgentStream | None = None
        self.leases = 0

    async def connect(self, *, carries: bool = True) -> AgentStream:
        reader, writer = await asyncio.open_unix_connection(self.agent.folder / "agent.sock")
        self.stream = AgentStream(
            "algo-1",
            reader,
            writer,
            on_event=lambda _host, header: self.events.put_nowait(header),
            on_close=lambda _host, _reason: None,
        )
        if carries:
            self.stream.lead_to_front(FrontFolder(self.server.path.parent))
        offer = {"channels": True} if carries else {}
        answer = await self.stream.request("hello", protocol=1, epoch=1, **offer)
        assert answer.header["channels"] is True
        return self.stream

    async def disconnect(self) -> None:
        if self.stream is not None:
            self.stream.close()
            await self.stream.wait_closed()

    async def run(self, source: str, port: int = 0, sdk_config: str | None = None) -> str:
        """Run a job with the variables of a front; return its log. ``sdk_config`` is the text of the configuration."""
        assert self.stream is not None
        self.leases += 1
        job, url = f"{self.leases:016x}", f"http://127.0.0.1:{port or self.port}"
        variables = {"JUPYTER_SMX_AWS": "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_S3": url}
        if sdk_config is not None:
            variables["SAGEMAKER_ADMIN_CONFIG_OVERRIDE"] = "/run/smx-aws/sdk.yaml"
            (self.server.path.parent / "sdk.yaml").write_text(sdk_config)
        spec: Any = self.agent.spec(source, environment=variables)
        await self.stream.run(job=job, lease=self.leases, spec=spec)
        while (event := await asyncio.wait_for(self.events.get(), PATIENCE)).get("event") != "ended":
            pass
        self.record = event["record"]
        piece = await self.stream.read_file(job=job, lease=self.leases, name="log", offset=0, limit=65_536)
        return piece.body.decode()

    async def open(self, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the port as a program of the job does."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(first)
        return reader, writer


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
async def world(start_agent: Callable[..., Agent], far_folder: Path) -> AsyncIterator[World]:
    server = Server(far_folder / "front.sock")
    await server.start()
    world = World(start_agent(), server, free_port())
    await world.connect()
    yield world
    await world.disconnect()
    await server.close()


async def test_a_job_reaches_the_server_at_the_port_of_its_variables(world: World) -> None:
    for _ in range(2):
        text = await world.run(REQUEST)
        assert "GET /bucket HTTP/1.1" in text
        assert f"Host: 127.0.0.1:{world.port}" in text
    await world.server.close()
    assert await world.run(REQUEST) in {"RemoteDisconnected\n", "ConnectionResetError\n", "URLError\n"}
    await world.server.start()
    assert "GET /bucket" in await world.run(REQUEST)


async def test_a_job_whose_port_another_process_has_gets_another_one(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        text = await world.run(REQUEST + URL, port)
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert "GET /bucket" in text
    other = text.split("URL http://127.0.0.1:")[1].strip()
    assert other != str(port)
    assert f"Host: 127.0.0.1:{other}" in text


async def test_a_controller_without_channels_leaves_the_job_as_it_is(world: World) -> None:
    await world.disconnect()
    await world.connect(carries=False)
    assert await world.run(REQUEST) == "URLError\n"


async def test_the_configuration_of_the_sdk_is_no_leftover_of_the_job(world: World) -> None:
    assert await world.run(CONFIG, sdk_config="text") == "text\n"
    assert world.record["left_behind"] == []
    await world.run("import os; open(os.environ['TMPDIR'] + '/left', 'w')", sdk_config="text")
    assert world.record["left_behind"] == ["1 temporary file(s) or folder(s) were removed: left"], world.record
    assert await world.run(CONFIG, sdk_config="") == "None\n", "the SDK needs the file that the variable names"


async def test_without_a_way_to_the_front_connections_are_refused(world: World) -> None:
    """The port of the variables may be another user's on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        await world.disconnect()
        await world.connect(carries=False)
        text = await world.run(REQUEST + URL, stranger.getsockname()[1], sdk_config="text")
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert text == "URLError\nURL http://127.0.0.1:1\n"
    assert "this controller takes no connections" in (world.agent.folder / "agent.log").read_text()


async def test_bytes_arrive_whole_in_both_directions_and_ends_are_passed_on(world: World) -> None:
    await world.run("")
    sent = os.urandom(5_000_000)
    reader, writer = await world.open(ECHO)

    async def upload() -> None:
        for begin in range(0, len(sent), 100_000):
            writer.write(sent[begin : begin + 100_000])
            await writer.drain()
        writer.write_eof()

    _, echo = await asyncio.wait_for(asyncio.gather(upload(), reader.read(-1)), PATIENCE)
    assert echo == sent
    writer.close()
    reader, writer = await world.open(COUNT)
    writer.write(sent)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(-1), PATIENCE) == b"%d" % len(sent)
    writer.close()


async def test_many_uploads_at_once_arrive_whole(world: World) -> None:
    await world.run("")
    bodies = [os.urandom(3_000_000) for _ in range(8)]

    async def upload(body: bytes) -> bytes:
        reader, writer = await world.open(ECHO)

        async def send() -> None:
            writer.write(body)
            await writer.drain()
            writer.write_eof()

        _, echo = await asyncio.gather(send(), reader.read(-1))
        writer.close()
        return echo

    echoes = await asyncio.wait_for(asyncio.gather(*map(upload, bodies)), PATIENCE)
    assert [len(echo) for echo in echoes] == [len(body) for body in bodies]
    assert echoes == bodies


async def test_connections_that_are_not_read_fill_no_memory_and_hold_up_nothing(world: World) -> None:
    await world.run("")
    slow = [await world.open(ENDLESS) for _ in range(12)]
    before = -1
    while before != world.server.sent:  # until nothing moves any more
        before = world.server.sent
        assert world.stream is not None
        for _ in range(20):
            await asyncio.wait_for(world.stream.request("ping"), PATIENCE)
    assert before < 12 * 12_000_000, "the buffers of sockets, and no more"
    text = await world.run(REQUEST)
    assert "GET /bucket" in text
    for _, writer in slow:
        writer.transport.abort()
    while world.server.connections:
        await asyncio.wait_for(world.stream.request("ping"), PATIENCE)


async def test_connections_that_the_server_closed_hold_no_place(world: World) -> None:
    await world.run("")
    clients = []
    for _ in range(channel_frames.MAX_CHANNELS + 2):
        reader, writer = await world.open(b"GET / HTTP/1.1\r\n\r\n")
        assert b"GET /" in await asyncio.wait_for(reader.read(-1), PATIENCE)
        clients.append(writer)
    for writer in clients:
        writer.close()
    assert "limit" not in (world.agent.folder / "agent.log").read_text()


async def test_the_limit_of_connections_is_logged_once_and_more_wait(world: World) -> None:
    await world.run("")
    clients = [await world.open(ECHO + b"x") for _ in range(channel_frames.MAX_CHANNELS)]
    for reader, _ in clients:
        assert await asyncio.wait_for(reader.read(1), PATIENCE) == b"x"
    more = [await world.open(ECHO + b"y") for _ in range(2)]
    for place, (reader, _) in enumerate(more):
        clients[place][1].close()
        assert await asyncio.wait_for(reader.read(1), PATIENCE) == b"y"
    for _, writer in clients + more:
        writer.close()
    assert (world.agent.folder / "agent.log").read_text().count("which is the limit") == 1


async def test_uploads_to_a_controller_that_does_not_read_leave_the_agent_its_requests(world: World) -> None:
    await world.run("")
    reader, writer = await asyncio.open_unix_connection(world.agent.folder / "agent.sock", limit=1)
    writer.write(encode({"id": 1, "op": "hello", "protocol": 1, "epoch": 2, "channels": True}))
    await asyncio.wait_for(reader.read(1), PATIENCE)
    clients = [await world.open(bytes(channel_frames.WINDOW)) for _ in range(100)]
    counts = [0]

    def is_full() -> bool:
        counts.append(waiting_bytes(writer.get_extra_info("socket").fileno()))
        return counts[-1] == counts[-2] >= channel_frames.PIECE

    await eventually(is_full)
    path = world.agent.folder / "answered"
    spec: Any = world.agent.spec(f"open({str(path)!r}, 'w')")
    writer.write(encode({"id": 2, "op": "run", "job": "f" * 16, "lease": 9, "spec": spec}))
    await eventually(path.exists)
    for _, client in clients:
        client.transport.abort()
    writer.transport.abort()


def waiting_bytes(descriptor: int) -> int:
    """Return how many bytes wait to be read."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


async def test_connections_break_with_the_stream_and_later_ones_wait_for_the_next(world: World) -> None:
    await world.run("")
    reader, writer = await world.open(ECHO)
    writer.write(b"x")
    assert await asyncio.wait_for(reader.read(1), PATIENCE) == b"x"
    await world.disconnect()
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), PATIENCE)
    later = await world.open(ECHO + b"y")
    await world.connect()
    assert await asyncio.wait_for(later[0].read(1), PATIENCE) == b"y"
    later[1].close()
    writer.close()
    assert len(world.server.connections) <= 1


async def test_the_port_ends_with_the_host(world: World) -> None:
    await world.run("")
    assert world.stream is not None
    await world.stream.request("end")
    await asyncio.to_thread(world.agent.wait)
    with pytest.raises(ConnectionRefusedError):
        await world.open(ECHO)

"""Channels of an agent's stream to a server here that does not read, answers at once, or is not reached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.wire import Decoder, Frame
from jupyter_smx.controller.agents.channels import Channels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.controller.agents.channels import Streams

PATIENCE = 20
SMALL_BUFFER = 4096


class World:
    """Channels to a listener whose connections the test serves itself; it has the frames for the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(channel_frames.MAX_CHANNELS)
        self._listener.setblocking(False)
        self._sockets: list[socket.socket] = [self._listener]
        self._decoder = Decoder()
        self._arrival = asyncio.Event()
        self.frames: list[Frame] = []
        self.error: Exception | None = None
        self.channels = Channels(self._connect, self._write)

    async def _connect(self) -> Streams:
        if self.error is not None:
            raise self.error
        reader, writer = await asyncio.open_unix_connection(self._path)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        return reader, writer

    def _write(self, data: bytes) -> None:
        self.frames += self._decoder.feed(data)
        self._arrival.set()

    def take(self, number: int, kind: str, data: bytes = b"") -> None:
        self.channels.take(Frame(channel_frames.frame(number, kind), data))

    async def open(self, number: int) -> socket.socket:
        """Open a channel; return the server's side of its connection."""
        self.take(number, channel_frames.OPEN)
        side, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._sockets.append(side)
        return side

    def of_kind(self, kind: str) -> list[Frame]:
        return [frame for frame in self.frames if frame.header["kind"] == kind]

    async def wait_for_frames(self, kind: str, channels: int) -> None:
        """Wait until so many channels have sent a frame of this kind."""
        while len({frame.header[channel_frames.CHANNEL] for frame in self.of_kind(kind)}) < channels:
            self._arrival.clear()
            await asyncio.wait_for(self._arrival.wait(), PATIENCE)

    async def close(self) -> None:
        self.channels.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.channels.wait_closed(), PATIENCE)
        for side in self._sockets:
            side.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    own = World(tmp_path / "s")
    yield own
    await own.close()


async def test_channels_close_although_the_server_does_not_read(world: World) -> None:
    side = await world.open(1)
    for _ in range(channel_frames.WINDOW // channel_frames.PIECE):
        world.take(1, channel_frames.DATA, bytes(channel_frames.PIECE))
    assert await asyncio.get_running_loop().sock_recv(side, 1)
    world.channels.close()
    await asyncio.wait_for(world.channels.wait_closed(), PATIENCE / 4)


async def test_channels_close_although_a_server_that_has_ended_does_not_read(world: World) -> None:
    side = await world.open(1)
    world.take(1, channel_frames.DATA, bytes(channel_frames.PIECE))
    world.take(1, channel_frames.EOF)
    side.shutdown(socket.SHUT_WR)
    await world.wait_for_frames(channel_frames.EOF, 1)
    await world.wait_for_frames(channel_frames.CREDIT, 1)
    world.channels.close()
    await asyncio.wait_for(world.channels.wait_closed(), PATIENCE / 4)


async def test_bytes_before_an_orderly_end_reach_the_server(world: World) -> None:
    side = await world.open(1)
    world.take(1, channel_frames.DATA, bytes(channel_frames.PIECE))
    world.take(1, channel_frames.EOF)
    side.shutdown(socket.SHUT_WR)
    await world.wait_for_frames(channel_frames.EOF, 1)
    count = 0
    while data := await asyncio.get_running_loop().sock_recv(side, channel_frames.PIECE):
        count += len(data)
    assert count == channel_frames.PIECE
    await asyncio.wait_for(world.channels.wait_closed(), PATIENCE)
    assert not world.of_kind(channel_frames.RESET)


async def test_answers_of_many_connections_at_once_stay_below_the_limit(world: World) -> None:
    count = 64
    sides = [await world.open(number) for number in range(count)]
    for side in sides:
        side.sendall(bytes(channel_frames.PIECE))
    await world.wait_for_frames(channel_frames.DATA, count)
    total = sum(len(frame.body) for frame in world.of_kind(channel_frames.DATA))
    assert total <= channel_frames._TOTAL + count * channel_frames._SMALL_WINDOW


async def test_an_unforeseen_error_of_one_connection_is_logged_and_resets_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.error = ValueError("unforeseen")
    with caplog.at_level(logging.INFO):
        world.take(1, channel_frames.OPEN)
        await world.wait_for_frames(channel_frames.RESET, 1)
        await world.channels.wait_closed()
    assert "channel 1 failed" in caplog.text
    world.error = None
    assert await asyncio.wait_for(world.open(1), PATIENCE), "its number is free"

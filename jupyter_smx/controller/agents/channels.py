"""Connections of a host's jobs to a server of this machine, carried as channels of the agent's stream."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeAlias

from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.wire import Frame, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

_LIMIT = 2 * channel_frames.MAX_CHANNELS
"""Channels of a stream, with those that have ended for the agent and whose connections are closed here meanwhile."""

Streams: TypeAlias = "tuple[asyncio.StreamReader, asyncio.StreamWriter]"
Connect: TypeAlias = "Callable[[], Awaitable[Streams]]"


class _Channel:
    """One connection: bytes of the host that were not delivered yet, and the window of those to the host."""

    def __init__(self, total: channel_frames.SendTotal) -> None:
        self.window = channel_frames.SendWindow(total)
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        """Bytes from the host; an empty piece is their end."""
        self.waiting = 0
        self.task: asyncio.Task[None] | None = None


class Channels:
    """The channels of one stream. ``connect`` opens a connection of this machine, ``write`` sends bytes to the agent.

    A channel ends with the stream, and its connection then is closed.
    """

    def __init__(self, connect: Connect, write: Callable[[bytes], object]) -> None:
        self._connect = connect
        self._write = write
        self._total = channel_frames.SendTotal()
        self._channels: dict[int, _Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        """Set when bytes were delivered; a wait for room clears it."""

    def take(self, frame: Frame) -> None:
        """Handle a frame of a channel; one of a channel that has ended is dropped."""
        number, kind = frame.header.get(channel_frames.CHANNEL), frame.header.get("kind")
        if not isinstance(number, int):
            return
        if kind == channel_frames.OPEN:
            self._open(number)
        channel = self._channels.get(number)
        if channel is None:
            return
        if kind == channel_frames.DATA and frame.body:
            self._take_data(number, channel, frame.body)
        elif kind == channel_frames.EOF:
            channel.pieces.put_nowait(b"")
        elif kind == channel_frames.CREDIT:
            channel.window.add_delivered(channel_frames.credit_of(frame.header))
            self._room.set()
        elif kind == channel_frames.RESET:
            self._end(number)

    def close(self) -> None:
        """End all channels."""
        for number in list(self._channels):
            self._end(number)

    async def wait_closed(self) -> None:
        """Wait until the connections of all channels that ended are closed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, number: int) -> None:
        if number in self._channels or len(self._channels) >= _LIMIT:
            self._reset(number)
            return
        channel = self._channels[number] = _Channel(self._total)
        channel.task = asyncio.get_running_loop().create_task(self._carry(number, channel), name=f"channel {number}")
        self._tasks.add(channel.task)
        channel.task.add_done_callback(self._tasks.discard)

    def _take_data(self, number: int, channel: _Channel, data: bytes) -> None:
        channel.waiting += len(data)
        if channel.waiting > channel_frames.WINDOW:  # an agent that sends more than it may fills no memory
            self._reset(number)
            return
        channel.pieces.put_nowait(data)

    def _end(self, number: int) -> None:
        channel = self._channels.pop(number, None)
        if channel is None:
            return
        channel.window.close()
        self._room.set()
        if channel.task is not None:
            channel.task.cancel()

    def _reset(self, number: int) -> None:
        self._end(number)
        self._send(number, channel_frames.RESET)

    def _send(self, number: int, kind: str, data: bytes | None = None, count: int = 0) -> None:
        self._write(encode(channel_frames.frame(number, kind, count), data))

    async def _carry(self, number: int, channel: _Channel) -> None:
        """Carry one connection until both directions have ended, or it breaks."""
        try:
            reader, writer = await self._connect()
            await self._exchange(number, channel, reader, writer)
        except OSError as error:
            _log.info("channel %d to the server of this machine broke: %s", number, error)
        except Exception:  # noqa: BLE001
            # The border between connections and the controller: an error must not leave a client without an end.
            _log.exception("channel %d failed", number)
        else:
            self._forget(number, channel)
            return
        self._forget(number, channel)
        self._send(number, channel_frames.RESET)

    async def _exchange(
        self, number: int, channel: _Channel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry both directions; drop what the server has not read if this ends early."""
        loop = asyncio.get_running_loop()
        directions = (self._deliver(number, channel, writer), self._collect(number, channel, reader))
        tasks = [loop.create_task(direction) for direction in directions]
        try:
            await asyncio.gather(*tasks)
            writer.close()
            await writer.wait_closed()
        finally:
            for task in tasks:
                task.cancel()
            transport = writer.transport
            if not transport.is_closing() or transport.get_write_buffer_size():
                transport.abort()  # a flush would wait as long as the server does not read

    def _forget(self, number: int, channel: _Channel) -> None:
        """Drop a channel whose task ends by itself."""
        if self._channels.get(number) is channel:
            channel.task = None
            self._end(number)

    async def _deliver(self, number: int, channel: _Channel, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of the host on to the connection, each piece when the one before was taken."""
        while data := await channel.pieces.get():
            writer.write(data)
            await writer.drain()
            channel.waiting -= len(data)
            self._send(number, channel_frames.CREDIT, count=len(data))
        writer.write_eof()

    async def _collect(self, number: int, channel: _Channel, reader: asyncio.StreamReader) -> None:
        """Pass the bytes of the connection on to the host, no more than may be under way."""
        while data := await reader.read(channel_frames.PIECE):
            while data:
                # Only now: other channels may have taken the room during the read.
                piece = data[: await self._wait_for_room(channel)]
                data = data[len(piece) :]
                channel.window.add_sent(len(piece))
                self._send(number, channel_frames.DATA, piece)
        self._send(number, channel_frames.EOF)

    async def _wait_for_room(self, channel: _Channel) -> int:
        while not channel.window.room():
            self._room.clear()
            await self._room.wait()
        return channel.window.room()

"""A unix socket whose answers a test writes: it records connections and requests, and answers or closes as scripted."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass(eq=False)
class Peer:
    """One connection, as the server sees it."""

    writer: asyncio.StreamWriter
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client has closed it."""

    def shut_down(self) -> None:
        """Close it at once, before the client's loop can notice."""
        self.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class ScriptedServer:
    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.requests: list[str] = []
        """First line and body of each request."""
        self.heads: list[str] = []
        self.answer: Callable[[Peer], Awaitable[None]] = self.answer_well
        self._server: asyncio.Server | None = None

    async def listen(self, path: Path) -> None:
        """Listen at a path, also at that of a server whose connections stay open."""
        self._server = await asyncio.start_unix_server(self._serve, path)  # replaces the socket of another server

    async def close(self) -> None:
        for peer in self.peers:
            peer.writer.close()
        if self._server is not None:
            self._server.close()

    async def answer_well(self, peer: Peer) -> None:
        peer.writer.write(GOOD)

    async def stay_silent(self, peer: Peer) -> None:
        """Give no answer."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(writer)
        self.peers.append(peer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"Content-Length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                self.heads.append(head)
                self.requests.append(f"{head.partition(' HTTP/')[0]} {body.decode()}".strip())
                await self.answer(peer)
        peer.ended.set()
        writer.close()

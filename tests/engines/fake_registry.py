"""A client that pulls images from a fake daemon, whose answers a test defines."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.engines.base import PullProgress
    from jupyter_smx.engines.docker.images.pull import ImagePuller

NAME = "hub.test:5000/team/train:1"
LAYERS = [f"{number:012x}" for number in range(1, 5)]


def told(layer: str, status: str, current: int = 0, total: int = 0) -> dict[str, Any]:
    detail = {"current": current, "total": total} if total else {}
    return {"id": layer, "status": status, "progressDetail": detail, "progress": "[==>   ]"}


class Daemon:
    """A daemon that accepts each request for an image and answers with what ``lines`` has; None ends an answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: asyncio.Queue[dict[str, Any] | bytes | None] = asyncio.Queue()
        self.asked: list[str] = []
        self.open = 0
        self.status = b"200 OK"
        self.is_chunked = True

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        self.open += 1
        gone = asyncio.create_task(reader.read())
        try:
            chunked = b"Transfer-Encoding: chunked\r\n" if self.is_chunked else b""
            writer.write(b"HTTP/1.1 " + self.status + b"\r\nContent-Type: application/json\r\n" + chunked + b"\r\n")
            await self._say(writer, gone)
        finally:
            gone.cancel()
            self.open -= 1
            writer.close()

    async def _say(self, writer: asyncio.StreamWriter, gone: asyncio.Task[bytes]) -> None:
        while not gone.done():
            coming = asyncio.create_task(self.lines.get())
            await asyncio.wait({gone, coming}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            line = coming.result()
            if line is None:
                writer.write(b"0\r\n\r\n" if self.is_chunked else b"")
                return
            if line == b"hang up":
                return
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\r\n"
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if self.is_chunked else data)
            with suppress(ConnectionError):
                await writer.drain()

    def say(self, *lines: dict[str, Any] | bytes | None) -> None:
        for line in lines:
            self.lines.put_nowait(line)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(folder / "d.sock")
    server = await asyncio.start_unix_server(daemon.answer, os.fspath(daemon.path))
    async with server:
        yield daemon


def pulls_of(daemon: Daemon, when: Any = "missing", seconds: float = 20.0) -> ImagePuller:
    from jupyter_smx.engines.docker.images.pull import ImagePuller  # noqa: PLC0415 - imports Docker's library

    return ImagePuller(f"unix://{daemon.path}", when, seconds)


class Ear:
    """A task that waits for an image, and the progress that it got."""

    def __init__(self, pulls: ImagePuller, name: str = NAME) -> None:
        self.heard: list[PullProgress] = []
        self.task = asyncio.create_task(pulls.pull(name, self.heard.append))

    async def hears(self, words: str) -> None:
        await eventually(lambda: bool(self.heard) and self.heard[-1].text == words, within=30)

"""A controller that serves a socket, with a fake engine, and a client of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
import tempfile
import weakref
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_agent import FakeAgent, FakeEngine
from records import an_id

from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.server import ControllerServer
from jupyter_smx.controller.singleton import ListenSocket
from jupyter_smx.data_folder.location import DataFolder
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.content = response.read()

    def json(self) -> Any:
        return json.loads(self.content)


class World:
    """A controller that serves a socket, with a fake engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # ``tmp_path`` is too long for sockets if TMPDIR is a long path itself.
        sockets = Path(tempfile.mkdtemp(prefix="smx-"))
        weakref.finalize(self, shutil.rmtree, sockets, ignore_errors=True)
        self.socket = sockets / "s"
        self.agent = FakeAgent(sockets / "a")
        self.engine = FakeEngine(self.agent)
        self.stop = asyncio.Event()
        self.service = ControllerServer(
            Store.open(folder / "smx.sqlite"),
            Limits(),
            lambda _name: self.engine,
            {"fake": lambda: self.engine.targets},
            folder=DataFolder(folder, folder, ""),
            user="me",
            idle_exit=1000.0,
        )
        self.books = self.service.live_state

    async def ask(self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        return await asyncio.to_thread(self._ask, method, target, body, headers or {})

    def _ask(self, method: str, target: str, body: Any, headers: dict[str, str]) -> Answer:
        connection = Unix(self.socket)
        try:
            content = body if isinstance(body, (bytes, type(None))) else json.dumps(body)
            connection.request(method, target, content, headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    async def somebody_waits(self) -> None:
        """Wait until a request has read everything and waits for the next change."""
        await eventually(lambda: self.books.change_signal._next_change is not None, "a request waits")

    async def submit(self, number: int = 1, **fields: Any) -> Answer:
        return await self.ask("POST", "/v1/jobs", self.wish(number, **fields))

    def wish(self, number: int = 1, **fields: Any) -> dict[str, Any]:
        spec = {"kind": "train", "source": "x = 1", "base_name": "train", "engine": "fake", "python": "/py"} | fields
        return {"id": an_id(number), "spec": spec}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[World]:
    """Serve while the block lasts; nothing remains afterwards."""
    world = World(folder)
    async with world.agent:
        running = asyncio.create_task(world.service.run(ListenSocket(world.socket), world.stop))
        await eventually(world.socket.exists)
        yield world
        world.stop.set()
        await running
    assert not world.socket.exists()
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task stays behind")

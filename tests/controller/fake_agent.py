"""A fake agent on a real unix socket with real frames; tests choose its faults."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.wire import PROTOCOL, Decoder, encode
from jupyter_smx.engines.base import Capabilities, Observation
from jupyter_smx.model.records.cluster import Handle, HostHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, StoppedAgent
    from jupyter_smx.model.spec.instance import InstanceType


class FakeAgent:
    """Answers every request with ``ok`` unless a test says otherwise.

    ``silent``: reads requests, sends nothing. ``held``: operations whose answers wait for :meth:`let_go`, in any order.
    ``refusals``: error code by operation. ``cut``: how many bytes of the next frame are sent before the socket
    closes, or (``stall``) before it sends nothing more.
    """

    def __init__(self, path: Path, host: str = "algo-1") -> None:
        self.path = path
        self.host = host
        self.files: dict[tuple[str, str], bytes] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.seen: list[dict[str, Any]] = []
        self.silent = False
        self.held: set[str] = set()
        self.refusals: dict[str, str] = {}
        self.protocol = PROTOCOL
        self.epoch = 0
        self.cut: int | None = None
        self.stall = False
        self.news = asyncio.Event()
        self._kept: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FakeAgent:  # noqa: PYI034 - Self is of Python 3.11
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close every stream, as the end of the process does."""
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def connections(self) -> int:
        return len(self._writers)

    async def heard(self, op: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for ``count`` requests with this operation, and return all of them."""
        while len(found := [frame for frame in self.seen if frame.get("op") == op]) < count:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 10)
        return found

    def say(self, header: dict[str, Any], body: bytes | None = None) -> None:
        """Send one frame on every open connection."""
        for writer in self._writers:
            self._send(writer, encode(header, body))

    def let_go(self, *, backwards: bool = False) -> None:
        """Send the answers that were held, the oldest first or last."""
        kept, self._kept = self._kept, []
        for writer, frame in reversed(kept) if backwards else kept:
            writer.write(frame)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        decoder = Decoder()
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                for frame in decoder.feed(data):
                    self._hear(writer, frame.header)
        self._writers.discard(writer)
        writer.close()
        self._tasks.discard(task)

    def _hear(self, writer: asyncio.StreamWriter, header: dict[str, Any]) -> None:
        self.seen.append(header)
        self.news.set()
        if self.silent or "op" not in header:
            return
        frame = self._answer(header)
        if header["op"] in self.held:
            self._kept.append((writer, frame))
        else:
            self._send(writer, frame)

    def _answer(self, header: dict[str, Any]) -> bytes:
        op = header["op"]
        about = {"re": header["id"]} | {name: header[name] for name in ("job", "lease") if name in header}
        if op in self.refusals:
            return encode(about | {"ok": False, "code": self.refusals[op], "message": "Because."})
        if op == "hello":
            self.epoch = header["epoch"]
            return encode(about | {"ok": True, "protocol": self.protocol, "host": self.host, "jobs": self.jobs})
        if op == "read":
            content = self.files.get((header["job"], header["name"]), b"")
            piece = content[header["offset"] : header["offset"] + header["limit"]]
            return encode(about | {"ok": True, "total": len(content)}, piece)
        return encode(about | {"ok": True, "phase": "staging"})

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        if self.cut is None:
            writer.write(frame)
            return
        writer.write(frame[: self.cut])
        self.cut = None
        if self.stall:
            self.silent = True
        else:
            writer.close()


class Doors:
    """The one method of an engine that streams need: a connection to a host."""

    def __init__(self, *agents: FakeAgent) -> None:
        self._agents = {agent.host: agent for agent in agents}

    def handle(self, cluster: str = "c1") -> Handle:
        hosts = tuple(HostHandle(host=host, data={}) for host in self._agents)
        return Handle(engine="fake", cluster=cluster, hosts=hosts)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        del handle
        return await asyncio.open_unix_connection(self._agents[host].path)


class FakeEngine(Doors):
    """A whole engine in front of fake agents: hosts come up when ``gate`` is open."""

    name = "fake"
    capabilities = Capabilities(same_paths=True)

    def __init__(self, *agents: FakeAgent) -> None:
        super().__init__(*agents)
        self.gate = asyncio.Event()
        self.stopped: StoppedAgent | None = None
        self.released: list[str] = []
        self.folder: Path | None = None
        self.targets: Sequence[str] = ()
        self.interpreters: Sequence[str] = ()
        self.types: Sequence[InstanceType] = ()

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        return {"cluster": request.cluster}

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        await self.gate.wait()
        yield self.handle(request.cluster)

    async def find(self, cluster: str) -> Handle | None:
        return self.handle(cluster)

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        return [Observation.RUNNING for _ in handles]

    def stopped_agent(self, _handle: Handle, _host: str) -> StoppedAgent | None:
        return self.stopped

    async def release(self, handle: Handle) -> None:
        self.released.append(handle.cluster)

    def clusters_folder(self) -> Path | None:
        return self.folder

    observe_interval = 5.0

    def slots(self) -> int | None:
        return None

    def instance_types(self) -> Sequence[InstanceType]:
        return self.types

    def interpreter_names(self) -> Sequence[str]:
        return self.interpreters

    def is_network_isolated(self) -> bool:
        return False

    def spool_path(self, cluster: str, host: str) -> None:
        del cluster, host

    async def read_spool(self, *_where: object) -> None:
        return None

    async def sweep(self, _known: object) -> list[str]:
        return []

    async def prune(self, _is_needed: object) -> list[str]:
        return []

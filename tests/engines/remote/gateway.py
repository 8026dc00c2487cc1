"""The way to a remote machine, as a bastion is: it can be closed, it takes time, and it has a queue for launches.

:class:`GatewayServer` runs in the test, which closes and opens it; :class:`Gateway` asks it, from any process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.machine.host_folder import HostFolder
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.testing.delay_relay import DelayRelay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_TIMEOUT = 20.0
"""Seconds for one call from the test's thread."""


class Gateway:
    """Asks the machine behind a gateway; every method raises UnavailableError where that is closed."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def _send(self, **question: Any) -> Streams:
        try:
            reader, writer = await asyncio.open_unix_connection(self._path)
        except OSError as error:
            raise UnavailableError("The machine cannot be reached.", transient=True) from error
        writer.write(json.dumps(question).encode() + b"\n")
        return reader, writer

    async def _answer(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            line = await reader.readline()
        except OSError:
            line = b""
        if not line:  # cut: nothing is left to close
            raise UnavailableError("The machine cannot be reached.", transient=True)
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ask(self, op: str = "ping") -> dict[str, Any]:
        """Ask one question, and give the answer."""
        reader, writer = await self._send(op=op)
        try:
            return await self._answer(reader)
        finally:
            writer.close()

    async def loses_answer(self) -> bool:
        """Say whether the answer to this launch is lost."""
        return bool((await self.ask("launched"))["lost"])

    async def launch(self, cluster: str) -> AsyncIterator[QueueStatus]:
        """Give what a launch waits for until it is granted."""
        reader, writer = await self._send(op="launch", cluster=cluster)
        try:
            while (answer := await self._answer(reader)) != {"granted": True}:
                yield QueueStatus(**answer)
        finally:
            writer.close()

    async def connect(self, folder: Path) -> Streams:
        """Open a stream to the agent of a host's folder."""
        reader, writer = await self._send(op="connect", folder=str(folder))
        answer = await self._answer(reader)
        if answer == {"connected": True}:
            return reader, writer
        writer.close()
        raise UnavailableError(answer["refused"], transient=True)


class GatewayServer:
    """The gateway. Its methods are called by the test; what they do happens in the gateway's own thread."""

    def __init__(self, round_trip: float = 0.0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="toy-gateway-")
        self.path = str(Path(self._folder.name, "socket"))
        self._relay = DelayRelay(round_trip)
        self._is_open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._status: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._loses_next = False
        self.launches: list[str] = []
        """Clusters whose launch was asked for, once for each time."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway")
        self._thread.start()
        self._server = self._call(asyncio.start_unix_server(self._serve, self.path))

    def shut_down(self) -> None:
        """End it, with all of its streams."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.cleanup()

    def close(self) -> None:
        """Cut every stream, and let nothing through any more."""
        self._do(self._close)

    def open(self) -> None:
        """Let everything through again."""
        self._do(lambda: setattr(self, "_is_open", True))

    def queue(self, reason: str, position: int | None = None, expected_start: float | None = None) -> None:
        """Let launches wait from now on, those too that wait already, with this status."""
        status = {"reason": reason, "position": position, "expected_start": expected_start}
        self._do(lambda: self._set_status(status))

    def grant(self) -> None:
        """Let launches wait no more."""
        self._do(lambda: self._set_status(None))

    def lose_next_answer(self) -> None:
        """Carry the next launch out, and lose the answer to it."""
        self._do(lambda: setattr(self, "_loses_next", True))

    # In the gateway's thread

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT)

    def _do(self, act: Callable[[], object]) -> None:
        async def work() -> None:
            act()

        self._call(work())

    def _close(self) -> None:
        self._is_open = False
        for writer in self._writers:
            writer.transport.abort()

    def _set_status(self, status: dict[str, Any] | None) -> None:
        self._status = status
        self._changed.set()
        self._changed = asyncio.Event()

    async def _end(self) -> None:
        self._server.close()
        self._close()
        await self._relay.__aexit__(None, None, None)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            writer.close()
            return
        self._writers.add(writer)
        with contextlib.suppress(OSError, ValueError):
            question = json.loads(await reader.readline())
            if question["op"] == "connect":
                await self._connect(Path(question["folder"]), reader, writer)
                return
            if question["op"] == "launch":
                await self._launch(question["cluster"], writer)
            elif question["op"] == "launched":
                lost, self._loses_next = self._loses_next, False
                _say(writer, {"lost": lost})
            else:
                _say(writer, {})
        self._writers.discard(writer)
        writer.close()

    async def _launch(self, cluster: str, writer: asyncio.StreamWriter) -> None:
        self.launches.append(cluster)
        while self._status is not None:
            _say(writer, self._status)
            await self._changed.wait()
        _say(writer, {"granted": True})

    async def _connect(self, folder: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            agent = await HostFolder(folder).dial()
        except UnavailableError as error:
            _say(writer, {"refused": error.message})
            writer.close()
            return
        _say(writer, {"connected": True})
        self._writers.add(agent[1])
        self._relay.join((reader, writer), agent)


def _say(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(json.dumps(answer).encode() + b"\n")

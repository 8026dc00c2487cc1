"""A relay that delays bytes, as a long network connection does, without limiting the bytes in flight."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from typing_extensions import Self

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK_SIZE = 65_536


class DelayRelay:
    """Opens streams that lead to where ``connect`` leads; each way takes half of ``round_trip`` seconds."""

    def __init__(self, round_trip: float) -> None:
        self._delay = round_trip / 2
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every stream."""
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, *(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def open(self, connect: Callable[[], Awaitable[Streams]], path: str) -> Streams:
        """Open one stream; ``path`` is that of a new unix socket."""
        reader, writer = await connect()
        accepted: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(lambda *ends: accepted.set_result(ends), path)
        ours = await asyncio.open_unix_connection(path)
        their_reader, their_writer = await accepted
        server.close()
        self._writers.append(ours[1])
        self.join((reader, writer), (their_reader, their_writer))
        return ours

    def join(self, one: Streams, other: Streams) -> None:
        """Forward the data of each of two streams to the other one, until it ends."""
        self._writers += [one[1], other[1]]
        for source, target in ((other[0], one[1]), (one[0], other[1])):
            self._tasks.append(asyncio.create_task(self._pass_on(source, target)))

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        under_way: deque[bytes] = deque()  # a loop does not keep the order of timers that are due at the same moment
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK_SIZE):
                under_way.append(data)
                loop.call_later(self._delay, lambda: target.write(under_way.popleft()))
        loop.call_later(2 * self._delay, target.close)

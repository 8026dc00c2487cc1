"""Read a file piece by piece with several requests in flight: over a long way, one at a time takes a round trip each.

The order of the bytes is kept, and no more than the window is in memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from jupyter_smx.agent.wire import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
    from typing import Any

    ReadPiece = Callable[[int], Coroutine[Any, Any, bytes]]
    """Returns the bytes from an offset on, as many as fit into one frame; none at the end of the readable part."""

WINDOW = 8
"""Requests in flight for one job on one host: 2 MiB."""


async def read_ahead(
    read: ReadPiece, start: int, end: Callable[[], int], *, piece: int = MAX_BODY, window: int = WINDOW
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes between the offsets ``start`` and ``end()``, in order; ``read`` returns at most ``piece`` bytes.

    ``end`` is called again after each piece, since logs grow. Stops early if ``read`` returns no bytes. If ``read``
    raises, that is raised, and pending reads are cancelled: use it with ``contextlib.aclosing``.
    """
    offset = start
    while 0 < end() - offset <= piece:  # most files are short, and a task takes longer than the rest of it
        data = await read(offset)
        if not data:
            return
        yield data
        offset += len(data)
    waiting: deque[asyncio.Task[bytes]] = deque()
    following = offset
    try:
        while offset < end():
            while following < end() and len(waiting) < window:
                waiting.append(asyncio.ensure_future(read(following)))
                following += piece
            data = await waiting.popleft()
            if not data:
                return
            yield data
            offset += len(data)
            if len(data) != piece:  # what was asked for after it does not go on where it ends
                await asyncio.gather(*waiting)
                waiting.clear()
                following = offset
    finally:
        await _cancel(waiting)


async def run_side_by_side(work: Sequence[Callable[[], Awaitable[None]]], limit: int = WINDOW) -> None:
    """Do many things, ``limit`` at a time; after the first error nothing more is begun, and the rest is cancelled."""
    queue = iter(work)

    async def work_through_queue() -> None:
        for each in queue:
            await each()

    workers = [asyncio.ensure_future(work_through_queue()) for _ in range(min(limit, len(work)))]
    try:
        await asyncio.gather(*workers)
    finally:
        await _cancel(workers)


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

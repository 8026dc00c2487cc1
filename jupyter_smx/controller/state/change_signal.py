"""Bells: somebody rings when there is news, everybody who waits wakes up and looks."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bell:
    """One bell. Look first, then wait: nothing can ring between the two as long as nothing is awaited there."""

    def __init__(self) -> None:
        self._next_ring: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake everybody who waits now; who comes later waits for the next ring."""
        if self._next_ring is not None and not self._next_ring.done():
            self._next_ring.set_result(None)
        self._next_ring = None

    def next_ring(self) -> asyncio.Future[None]:
        """Give what is done at the next ring; shared by all who wait, so nobody may cancel it."""
        if self._next_ring is None:
            self._next_ring = asyncio.get_running_loop().create_future()
        return self._next_ring

    async def wait(self, timeout: float) -> bool:
        """Wait for the next ring, ``timeout`` seconds at most; False when there was none."""
        done, _ = await asyncio.wait({self.next_ring()}, timeout=max(0.0, timeout))
        return bool(done)


class Bells:
    """A bell for each key, there only while somebody waits for it."""

    def __init__(self) -> None:
        self._bells: dict[str, tuple[Bell, int]] = {}

    def ring(self, key: str) -> None:
        """Wake everybody who waits for ``key``."""
        if key in self._bells:
            self._bells[key][0].ring()

    @contextmanager
    def listen(self, key: str) -> Iterator[asyncio.Future[None]]:
        """Give what is done at the next ring of ``key``."""
        bell, waiting = self._bells.get(key, (Bell(), 0))
        self._bells[key] = (bell, waiting + 1)
        try:
            yield bell.next_ring()
        finally:
            left = self._bells[key][1] - 1
            if left:
                self._bells[key] = (bell, left)
            else:
                del self._bells[key]

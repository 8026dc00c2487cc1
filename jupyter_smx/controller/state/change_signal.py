"""Wake everything that waits for the next change of a record."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class ChangeSignal:
    """One signal. Read first, then wait: without an await in between, no change can be missed."""

    def __init__(self) -> None:
        self._next_change: asyncio.Future[None] | None = None

    def notify_all(self) -> None:
        """Wake all current waiters; later ones wait for the next call."""
        if self._next_change is not None and not self._next_change.done():
            self._next_change.set_result(None)
        self._next_change = None

    def next_change(self) -> asyncio.Future[None]:
        """Return the future of the next call. All waiters share it, so callers must not cancel it."""
        if self._next_change is None:
            self._next_change = asyncio.get_running_loop().create_future()
        return self._next_change

    async def wait(self, timeout: float) -> bool:
        """Wait for the next ring, ``timeout`` seconds at most; False when there was none."""
        done, _ = await asyncio.wait({self.next_change()}, timeout=max(0.0, timeout))
        return bool(done)


class KeyedSignals:
    """A signal for each key, which exists only while a task waits for it."""

    def __init__(self) -> None:
        self._signals: dict[str, tuple[ChangeSignal, int]] = {}

    def notify_all(self, key: str) -> None:
        """Wake all waiters of ``key``."""
        if key in self._signals:
            self._signals[key][0].notify_all()

    @contextmanager
    def subscribe(self, key: str) -> Iterator[asyncio.Future[None]]:
        """Yield a future that is done at the next signal for ``key``."""
        signal, waiting = self._signals.get(key, (ChangeSignal(), 0))
        self._signals[key] = (signal, waiting + 1)
        try:
            yield signal.next_change()
        finally:
            left = self._signals[key][1] - 1
            if left:
                self._signals[key] = (signal, left)
            else:
                del self._signals[key]

"""Count the sessions of a machine: sshd lets few of them in over one connection (``MaxSessions``, 10)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_SESSIONS = 8
"""Sessions at once for each machine: two of sshd's ten are left for a person on the same connection."""
_SHORT_SESSIONS = 3
"""Sessions that streams leave for commands, where each stream has a session of its own."""


class SessionSlots:
    """Let a limited number of sessions run, and the next ones in turn; the limit is lowered where sshd refuses one."""

    def __init__(self, limit: int = MAX_SESSIONS) -> None:
        self.limit = limit
        self.in_use = 0
        self._full = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    def stream_limit(self) -> int:
        """Give the number of sessions that may be streams, which last as long as a host."""
        return max(1, self.limit - _SHORT_SESSIONS)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold a slot; wait until one is free."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    async def acquire(self) -> None:
        """Wait for a slot, which :meth:`release` gives back."""
        if self.in_use < self.limit and not self._waiting:
            self.in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a slot back to the next one in turn."""
        self.in_use -= 1
        self._start_waiting()

    def lower(self) -> None:
        """Note that sshd refused a session: those that run beside it are all that it lets in, at least one."""
        self.limit = max(1, min(self.limit, self.in_use - 1))

    def reset(self) -> None:
        """Forget what was refused: there is a new connection."""
        self.limit = self._full
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self.in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)

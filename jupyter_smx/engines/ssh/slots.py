"""Count the sessions of a machine: sshd lets few of them in over one connection (``MaxSessions``, 10)."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_SESSIONS = 8
"""Sessions at once for each machine: two of sshd's ten are left for a person on the same connection."""
_SHORT_SESSIONS = 3
"""Sessions that streams leave for commands, where each stream has a session of its own."""

_RAISE_INTERVAL = 1.0
"""Seconds after which one session more is tried again where sshd refused one: others may have ended meanwhile."""


class SessionSlots:
    """Run a limited number of sessions, and queue others; the limit is lowered when sshd refuses one."""

    def __init__(self, limit: int = MAX_SESSIONS) -> None:
        self.limit = limit
        self.in_use = 0
        self._full = limit
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def stream_limit(self) -> int:
        """Return the number of sessions that may be streams, which last as long as a host."""
        return max(self.limit - _SHORT_SESSIONS, self.limit // 2)

    async def acquire(self) -> None:
        """Wait for a slot; call :meth:`release` to return it."""
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
            elif turn in self._waiting:  # release() skips those that are cancelled, and takes them out
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Pass the slot to the next session in the queue."""
        self.in_use -= 1
        self._start_waiting()

    def lower(self) -> None:
        """Note that sshd refused a session of those in use: the others are all that it lets in now."""
        self.limit = max(1, min(self.limit, self.in_use - 1))
        self._raise_later()

    def reset(self) -> None:
        """Reset the limit that refusals lowered: there is a new connection."""
        self.limit = self._full
        self._start_waiting()

    def _raise_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_RAISE_INTERVAL, self._raise_limit)

    def _raise_limit(self) -> None:
        self._timer = None
        if self.limit < self._full:
            self.limit += 1
            self._start_waiting()
            self._raise_later()

    def _start_waiting(self) -> None:
        while self._waiting and self.in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)

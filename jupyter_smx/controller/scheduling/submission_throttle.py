"""Puts the next call of a long line off while wishes come one upon the other."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from jupyter_smx.policy.scheduling.throttle import next_call

if TYPE_CHECKING:
    from collections.abc import Callable


class Crowd:
    """When the last wish came, and when the line was called; ``call`` is what calls it later."""

    def __init__(self, steady: Callable[[], float], call: Callable[[], None]) -> None:
        self._steady = steady
        self._call = call
        self._wished_at = self._called_at = -math.inf
        self._later: asyncio.TimerHandle | None = None
        self._closed = False

    def wish_came(self) -> None:
        """Learn that somebody handed a job in."""
        self._wished_at = self._steady()

    def puts_off(self, waiting: int) -> bool:
        """Say whether a line of so many has to wait now; then it is called later."""
        now = self._steady()
        due = next_call(waiting, self._wished_at, self._called_at)
        if due > now or self._closed:
            if self._later is None and not self._closed:
                self._later = asyncio.get_running_loop().call_later(due - now, self._come_back)
            return True
        self._called_at = now
        return False

    def _come_back(self) -> None:
        self._later = None
        self._call()

    def close(self) -> None:
        """Call nobody any more; requests may still come on connections that are open."""
        self._closed = True
        if self._later is not None:
            self._later.cancel()

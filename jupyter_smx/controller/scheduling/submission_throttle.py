"""Puts the next call of a long line off while wishes come one upon the other."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from jupyter_smx.policy.scheduling.throttle import next_schedule_at

if TYPE_CHECKING:
    from collections.abc import Callable


class SubmissionThrottle:
    """When the last wish came, and when the line was called; ``call`` is what calls it later."""

    def __init__(self, steady: Callable[[], float], call: Callable[[], None]) -> None:
        self._monotonic = steady
        self._schedule = call
        self._submitted_at = self._scheduled_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def on_submission(self) -> None:
        """Learn that somebody handed a job in."""
        self._submitted_at = self._monotonic()

    def defer(self, waiting: int) -> bool:
        """Say whether a line of so many has to wait now; then it is called later."""
        now = self._monotonic()
        due = next_schedule_at(waiting, self._submitted_at, self._scheduled_at)
        if due > now or self._closed:
            if self._timer is None and not self._closed:
                self._timer = asyncio.get_running_loop().call_later(due - now, self._run_deferred)
            return True
        self._scheduled_at = now
        return False

    def _run_deferred(self) -> None:
        self._timer = None
        self._schedule()

    def close(self) -> None:
        """Call nobody any more; requests may still come on connections that are open."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

"""Decide when an idle host ends by itself, by a clock that also runs while a laptop sleeps."""

from __future__ import annotations

import time
from typing import Callable, Optional

LINGER = 60.0
"""Seconds that a host without keep-alive waits after a job, so that the controller can collect what it made."""


def boot_clock() -> float:
    """Seconds since boot, sleep included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Deadline:
    """The moment after which an idle host has no reason to live; a host with a job has none."""

    def __init__(self, idle_limit: float, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._at: Optional[float] = clock() + idle_limit
        self._busy = False

    def set(self, seconds: Optional[float]) -> None:
        """Set the end to ``seconds`` from now, or never (None); the end of a running job replaces it."""
        self._at = None if seconds is None else self._clock() + max(0.0, seconds)

    def begin_job(self) -> None:
        """Stop counting: the job's own limit rules now."""
        self._busy = True

    def end_job(self, keep_alive: float) -> None:
        """Count the keep-alive from now."""
        self._busy = False
        self._at = self._clock() + max(keep_alive, LINGER)

    def remaining(self) -> Optional[float]:
        """Return the seconds that are left, 0 when it is over, None if no end is set or a job runs."""
        if self._at is None or self._busy:
            return None
        return max(0.0, self._at - self._clock())

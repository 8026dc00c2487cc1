"""Limits of the wait until the killed processes of a job have disappeared."""

from __future__ import annotations

import math

PATIENCE = 10.0
"""Seconds in which at least one more process has to disappear. Freeing much memory takes seconds, and no signal
shortens it; so does the end of hundreds of processes on a busy machine. A process that waits for a disk may stay.
"""
MAX_WAIT = 180.0
"""Seconds that they are waited for in all: meanwhile their job does not end."""
_MIN_PAUSE = 0.005
_PAUSE_FACTOR = 5.0
"""Factor between the time of a look and the pause after it: with hundreds of processes the exits need the CPU."""


def pause_after(seconds: float) -> float:
    """Return the seconds to wait after a look that took ``seconds``."""
    return max(_MIN_PAUSE, _PAUSE_FACTOR * seconds)


class KillWait:
    """Waits for killed processes to disappear: ``patience`` seconds after the last progress, ``longest`` in all.

    Both begin when :meth:`can_wait` is first called.
    """

    def __init__(self, patience: float = PATIENCE, longest: float = MAX_WAIT) -> None:
        self._patience = patience
        self._max_wait = longest
        self._lowest_count = math.inf
        self._highest_cpu = 0.0
        self._progress_deadline = -math.inf
        self._end = math.inf

    def can_wait(self, left: int, now: float, computed: float = 0.0) -> bool:
        """Return True to wait longer for the ``left`` processes that exist at ``now``, on a monotonic clock.

        ``computed`` are their seconds of CPU. They grow while a killed process frees its memory, although it no longer
        shows any; they do not grow for a process that waits for a disk.
        """
        self._end = min(self._end, now + self._max_wait)
        if left < self._lowest_count or computed > self._highest_cpu:
            self._lowest_count, self._progress_deadline = min(left, self._lowest_count), now + self._patience
            self._highest_cpu = computed
        return now < min(self._progress_deadline, self._end)

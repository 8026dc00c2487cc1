"""How long to wait for the killed processes of a job to disappear."""

from __future__ import annotations

import math

PATIENCE = 10.0
"""Seconds in which at least one more has to be gone. To give back much memory takes seconds, and no signal cuts it
short; so does the end of hundreds of processes on a busy machine. One that waits for a disk may never be gone."""
MAX_WAIT = 180.0
"""Seconds that they are waited for in all: meanwhile their job does not end."""
_MIN_PAUSE = 0.005
_PAUSE_FACTOR = 5.0
"""How much longer the pause is than a look at hundreds of processes, which need the processors to end."""


def pause_after(seconds: float) -> float:
    """Say how long to wait after a look that took ``seconds`` before the next one."""
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
        """Say whether to go on waiting for the ``left`` processes that are there ``now``, by a monotonic clock.

        ``computed`` are their seconds of CPU: one that was killed and gives back its memory computes, and shows none of
        it any more; one that waits for a disk does not.
        """
        self._end = min(self._end, now + self._max_wait)
        if left < self._lowest_count or computed > self._highest_cpu:
            self._lowest_count, self._progress_deadline = min(left, self._lowest_count), now + self._patience
            self._highest_cpu = computed
        return now < min(self._progress_deadline, self._end)

"""Silence after a job: how long the processes that it left are waited for, which were killed and have to be gone."""

from __future__ import annotations

import math

PATIENCE = 10.0
"""Seconds in which at least one more has to be gone. To give back much memory takes seconds, and no signal cuts it
short; so does the end of hundreds of processes on a busy machine. One that waits for a disk may never be gone."""
LONGEST = 180.0
"""Seconds that they are waited for in all: meanwhile their job does not end."""


class Patience:
    """Lasts as long as there are fewer and fewer, and :data:`PATIENCE` seconds more; begins when it is first asked."""

    def __init__(self) -> None:
        self._fewest = math.inf
        self._until = -math.inf
        self._end = math.inf

    def lasts(self, left: int, now: float) -> bool:
        """Say whether to go on waiting for the ``left`` processes that are there ``now``, by a monotonic clock."""
        self._end = min(self._end, now + LONGEST)
        if left < self._fewest:
            self._fewest, self._until = left, now + PATIENCE
        return now < min(self._until, self._end)

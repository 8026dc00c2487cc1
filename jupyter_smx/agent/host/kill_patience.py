"""Silence after a job: how long its processes are waited for, which were killed and have to be gone."""

from __future__ import annotations

import math

PATIENCE = 10.0
"""Seconds in which at least one more has to be gone. To give back much memory takes seconds, and no signal cuts it
short; so does the end of hundreds of processes on a busy machine. One that waits for a disk may never be gone."""
LONGEST = 180.0
"""Seconds that they are waited for in all: meanwhile their job does not end."""
_LOOK_AGAIN = 0.005
_REST = 5.0
"""How much longer the pause is than a look at hundreds of processes, which need the processors to end."""


def pause_after(seconds: float) -> float:
    """Say how long to wait after a look that took ``seconds`` before the next one."""
    return max(_LOOK_AGAIN, _REST * seconds)


class Patience:
    """Lasts as long as there are fewer and fewer, and ``patience`` seconds more; begins when it is first asked."""

    def __init__(self, patience: float = PATIENCE, longest: float = LONGEST) -> None:
        self._patience = patience
        self._longest = longest
        self._fewest = math.inf
        self._busiest = 0.0
        self._until = -math.inf
        self._end = math.inf

    def lasts(self, left: int, now: float, computed: float = 0.0) -> bool:
        """Say whether to go on waiting for the ``left`` processes that are there ``now``, by a monotonic clock.

        ``computed`` are their seconds of CPU: one that was killed and gives back its memory computes, and shows none of
        it any more; one that waits for a disk does not.
        """
        self._end = min(self._end, now + self._longest)
        if left < self._fewest or computed > self._busiest:
            self._fewest, self._until = min(left, self._fewest), now + self._patience
            self._busiest = computed
        return now < min(self._until, self._end)

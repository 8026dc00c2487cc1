"""Decide how many children to park: one for interactive use, two for job series, none if memory is short."""

from __future__ import annotations

import time
from typing import Callable, Optional

from jupyter_smx.agent.system.resources import memory

SERIES = 1.0
"""Seconds between two jobs that follow each other."""
QUIET = 10.0
"""Seconds after which a series is over."""
_MIN_FREE_SHARE = 0.04
"""Share of the memory that must be free."""


def free_memory(root: str = "/") -> float:
    """Return the share of the machine's memory that is available; 1 if the system does not report it."""
    found = memory.machine_memory(root)
    whole = found.get("MemTotal")
    return found.get("MemAvailable", whole) / whole if whole else 1.0


class Demand:
    """Counts how jobs follow each other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, memory: Callable[[], float] = free_memory) -> None:
        self._clock = clock
        self._memory = memory
        self._last: Optional[float] = None
        self._series = False

    def record_start(self) -> None:
        """Take note that a job begins now."""
        now = self._clock()
        self._series = self._last is not None and now - self._last < SERIES
        self._last = now

    def desired_count(self) -> int:
        """Return the number of children that should be parked now."""
        if self._memory() < _MIN_FREE_SHARE:
            return 0
        lasting = self._last is not None and self._clock() - self._last < QUIET
        return 2 if self._series and lasting else 1

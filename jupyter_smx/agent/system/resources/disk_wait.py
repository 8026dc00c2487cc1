"""Wait for a disk at the end of a job: how long, with which pauses, and in the process of the job itself.

The agent waits with timers of its loop and asks :meth:`DiskWait.next_pause` only; the process of a job has nothing else
to do and blocks in :func:`write_patiently`.
"""

from __future__ import annotations

import time
from typing import Callable, Optional

from jupyter_smx.agent import errors

LIMIT = 300.0
"""Seconds for which the end of a job waits for a disk."""
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 10.0


class DiskWait:
    """Patience with a disk: ``limit`` seconds from its first failure on, by a clock that runs forward only."""

    def __init__(self, limit: float = LIMIT, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._until: Optional[float] = None
        self._pause = _FIRST_PAUSE

    def next_pause(self) -> Optional[float]:
        """Return the seconds until the next try after a failure, None when the time is over."""
        now = self._clock()
        if self._until is None:
            self._until = now + self._limit
        left = self._until - now
        if left <= 0:
            return None
        pause, self._pause = min(self._pause, left), min(2 * self._pause, _LONGEST_PAUSE)
        return pause


def write_patiently(
    write: Callable[[], None],
    wait: DiskWait,
    announce: Callable[[int], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write, again after each pause while a disk is full, read-only or fails. Blocks.

    ``announce`` is called with the number of the error when the waiting begins, and with 0 when it is over.

    :raises OSError: the disk still fails after all of the patience, or ``write`` failed for another reason.
    """
    is_waiting = False
    try:
        while True:
            try:
                write()
            except OSError as error:
                number = errors.find_errno(error)
                pause = wait.next_pause() if errors.is_temporary(error) else None
                if pause is None:
                    raise
            else:
                return
            if not is_waiting:
                is_waiting = True
                announce(number)
            sleep(pause)
    finally:
        if is_waiting:
            announce(0)

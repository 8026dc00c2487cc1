"""The monotonic clock, for delays and time-outs; apart, because the records and the live state import it.

It only runs forward, whatever the system clock is set to.
"""

from __future__ import annotations

import time
from typing import NamedTuple

CLOCK_CHANGE_THRESHOLD = 2.0
"""Seconds between the two clocks from which on the other one was set, and did not only drift."""


def monotonic_clock() -> float:
    """Return seconds since an arbitrary moment; includes the time of a laptop's sleep if the system counts it."""
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClockOffset(NamedTuple):
    """Seconds by which the clock of the records is ahead of the monotonic one, which restarts with each boot."""

    boot: str
    seconds: float

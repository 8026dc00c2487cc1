"""The clock that only runs forward: for pauses, patience and periods, whatever people set the other one to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

WAS_SET = 2.0
"""Seconds between the two clocks from which on the other one was set, and did not only drift."""


def steady_clock() -> float:
    """Give seconds since some moment, with the time that a laptop slept where the system counts it."""
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def boot_id() -> str:
    """Give what changes with each boot, with which the steady clock begins anew; empty where nobody says it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Apart(NamedTuple):
    """By how many seconds the clock of the records is ahead of the steady one, in one boot of the machine."""

    boot: str
    seconds: float

"""Divide the seconds from a notice to the end of the machine; separate, so that fake hosts divide them alike."""

from __future__ import annotations

import json
import os
import signal
from typing import Optional

MAX_JOB_SECONDS = 120.0
"""Maximum seconds between SIGTERM and SIGKILL, as on SageMaker, if the machine stays that long."""
_SAME_MOMENT = 0.2
"""Seconds between signals that a scheduler sends to a job and to its agent, and until a job ended by that."""
_LONG_JOB = 0.5
"""Seconds of a job, from which on it may wait for a notice after its exit."""
_LONGEST_RESERVE = 6.0
_RESERVED_SHARE = 0.3


def _reserve(grace: float) -> float:
    """Return the seconds reserved for the outputs and the record of a job that ignores SIGTERM."""
    return min(_LONGEST_RESERVE, _RESERVED_SHARE * grace)


def job_seconds(grace: float) -> float:
    """Return the seconds between SIGTERM and SIGKILL, if the machine ends ``grace`` seconds after its notice."""
    return min(MAX_JOB_SECONDS, grace - _reserve(grace))


def host_seconds(grace: float) -> float:
    """Return the seconds after which the host ends by itself: killing everything takes two."""
    return grace - _reserve(grace) / 3


def announced_seconds(path: str, default: float) -> float:
    """Return the seconds until the machine ends, from the file that the sender of a notice wrote, if it wrote one."""
    try:
        with open(path, encoding="utf-8") as file:
            return max(0.0, float(json.loads(file.read(1024))["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return default


def came_with_exit(exited: Optional[float], now: float) -> bool:
    """Return True if a notice of ``now`` was the reason of an exit a moment before; seconds since the epoch.

    A scheduler signals the processes of a job in any order, so a job may exit before its agent has the notice.
    """
    return exited is not None and now - exited <= 2 * _SAME_MOMENT


def exit_pause(awake: Optional[float], exited: Optional[float], status: Optional[int]) -> float:
    """Return the seconds that a notice has to come after an exit; a short job waits only if SIGTERM ended it.

    ``awake`` is when the code of the job began; both are seconds since the epoch. ``status`` is that of ``waitpid``.
    """
    if status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM:
        return _SAME_MOMENT
    is_long = awake is not None and exited is not None and exited - awake >= _LONG_JOB
    return _SAME_MOMENT / 2 if is_long else 0.0

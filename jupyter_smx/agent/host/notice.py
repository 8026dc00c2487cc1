"""Divide the seconds from a notice to the end of the machine; separate, so that fake hosts divide them alike."""

from __future__ import annotations

import json

MAX_JOB_SECONDS = 120.0
"""Maximum seconds between SIGTERM and SIGKILL, as on SageMaker, if the machine stays that long."""
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

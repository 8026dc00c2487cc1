"""Find the version of a Python of this machine, once; separate because controller and kernel need it."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache

MIN_PYTHON = (3, 8)
"""The agent runs from this version on."""

_VERSION_SCRIPT = "import sys; print(*sys.version_info[:2])"
_TIMEOUT = 30.0


def version(python: str) -> tuple[int, int]:
    """Give the version of ``python``, which was really started for that. Blocks for some ten milliseconds, once.

    :raises OSError: there is no such file, or it cannot be started.
    :raises ValueError: its answer is none of a Python.
    :raises subprocess.SubprocessError: it failed, or said nothing for half a minute.
    """
    changed = os.stat(python).st_mtime_ns  # noqa: PTH116 - a name that is no path at all must come as an error, too
    return _cached_version(python, changed)


@lru_cache(maxsize=64)
def _cached_version(python: str, _changed: int) -> tuple[int, int]:
    answer = subprocess.run(
        [python, "-I", "-c", _VERSION_SCRIPT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT,
        check=True,
    )
    major, minor = answer.stdout.split()
    return int(major), int(minor)

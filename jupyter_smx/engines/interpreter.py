"""The Python that a host shall run: whether it can be started here and is new enough for an agent."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache

from jupyter_smx.model.errors import RefusedError

OLDEST = (3, 8)
"""The agent runs from this version on."""

_ASK = "import sys; print(*sys.version_info[:2])"
_SECONDS = 30.0


def check(python: str) -> tuple[int, int]:
    """Give the version of ``python``, which was really started for that. Blocks for some ten milliseconds, once.

    :raises RefusedError: it cannot be started or is too old.
    """
    try:
        status = os.stat(python)  # noqa: PTH116 - a name that is no path at all must come as the same refusal
        if not os.path.isabs(python):  # noqa: PTH117 - the same
            raise _refusal(python, "is not an absolute path")
        version = _version(python, status.st_mtime_ns)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        raise _refusal(python, f"cannot be started ({problem})") from problem
    if version < OLDEST:
        raise _refusal(python, f"is Python {version[0]}.{version[1]}")
    return version


@lru_cache(maxsize=64)
def _version(python: str, _changed: int) -> tuple[int, int]:
    answer = subprocess.run(
        [python, "-I", "-c", _ASK],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=True,
    )
    major, minor = answer.stdout.split()
    return int(major), int(minor)


def _refusal(python: str, what: str) -> RefusedError:
    return RefusedError(
        f"python: {python!r} {what}.",
        field="python",
        value=python,
        rule=f"A host runs an interpreter of this machine, Python {OLDEST[0]}.{OLDEST[1]} or newer.",
        cure="Run the notebook with a kernel whose sys.executable exists and can be started here.",
    )

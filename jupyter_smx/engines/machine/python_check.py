"""The Python that a host shall run: whether it can be started here and is new enough for an agent."""

from __future__ import annotations

import os
import subprocess

from jupyter_smx.model.errors import RefusedError
from jupyter_smx.python_version import MIN_PYTHON, version


def check_python(python: str) -> tuple[int, int]:
    """Give the version of ``python``, which was really started for that. Blocks for some ten milliseconds, once.

    :raises RefusedError: it cannot be started or is too old.
    """
    if not os.path.isabs(python):  # noqa: PTH117 - a word, not yet a path
        raise _refusal(python, "is not an absolute path")
    try:
        found = version(python)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        raise _refusal(python, f"cannot be started ({problem})") from problem
    if found < MIN_PYTHON:
        raise _refusal(python, f"is Python {found[0]}.{found[1]}")
    return found


def _refusal(python: str, what: str) -> RefusedError:
    return RefusedError(
        f"python: {python!r} {what}.",
        field="python",
        value=python,
        rule=f"A host runs an interpreter of this machine, Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer.",
        cure="Run the notebook with a kernel whose sys.executable exists and can be started here.",
    )

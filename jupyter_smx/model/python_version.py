"""Find the version of a Python of this machine, once; separate because controller and kernel need it."""

from __future__ import annotations

import os
import subprocess
from functools import lru_cache

MIN_PYTHON = (3, 8)
"""The agent runs from this version on."""

_VERSION_SCRIPT = "import sys; print(*sys.version_info[:2])"
_TIMEOUT = 30.0
_WORDS = 400
"""Characters of the output of a program that a message quotes."""
_SHIM = 1024
"""Bytes; a shim is shorter."""


def version(python: str) -> tuple[int, int]:
    """Give the version of ``python``, which was really started for that. Blocks for some ten milliseconds, once.

    :raises OSError: there is no such file, or it cannot be started.
    :raises ValueError: its answer is none of a Python.
    :raises subprocess.SubprocessError: it failed, or said nothing for half a minute.
    """
    changed = os.stat(python).st_mtime_ns  # noqa: PTH116 - a name that is no path at all must come as an error, too
    return _cached_version(python, changed)


def describe_failure(python: str, problem: Exception) -> str:
    """Say why :func:`version` failed: with what the program said, and what is known of its file or file system."""
    reason = str(problem)
    if isinstance(problem, subprocess.CalledProcessError):
        said = [line.strip() for line in problem.stderr.decode(errors="replace").splitlines() if line.strip()]
        reason = f"exit code {problem.returncode}: {' | '.join(said)[:_WORDS]}" if said else reason
    if _is_pyenv_shim(python):
        return f"it is a shim of pyenv, for which no Python is chosen here; `pyenv which python` names one; {reason}"
    if isinstance(problem, PermissionError) and _is_noexec(os.path.dirname(python)):  # noqa: PTH120
        return f"its file system is mounted with noexec; {reason}"
    return reason


def _is_noexec(path: str) -> bool:
    """Do as ``disk.is_noexec``, which the side of the kernel may not import: it is the agent's."""
    try:
        return bool(os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0))  # Python on macOS has no such flag
    except OSError:
        return False


def _is_pyenv_shim(python: str) -> bool:
    try:
        with open(python, "rb") as file:  # noqa: PTH123 - a name that is no path at all must come as an error, too
            return b"pyenv" in file.read(_SHIM) and f"{os.sep}shims{os.sep}" in python
    except OSError:
        return False


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

"""Environment of the fsspec worker: its parent's and the job's variables, without those of another Python."""

from __future__ import annotations

from typing import Dict, Mapping

_OF_ONE_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that are true of one interpreter only."""
_LOADED = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_IDENTITY = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that together say who asks: those of two are nobody's."""


def with_identity(inherited: Mapping[str, str], given: Mapping[str, str]) -> Dict[str, str]:
    """Add to variables those of a job, which says as a whole who asks, or leaves that as it is.

    A session token of one and keys of another are refused, and a profile is not looked at where keys are inherited.
    """
    taken = set(_IDENTITY) if any(given.get(name) for name in _IDENTITY) else set()
    return {**{name: value for name, value in inherited.items() if name not in taken}, **given}


def worker_environment(
    inherited: Mapping[str, str], given: Mapping[str, str], *, is_ours: bool, is_the_jobs: bool
) -> Dict[str, str]:
    """Make the environment of a courier of what this process inherited and of what the job was given.

    ``is_ours`` and ``is_the_jobs`` say whether the courier's Python is that of this process, and that of the job.
    """
    mine = {name: value for name, value in inherited.items() if is_ours or name not in _OF_ONE_PYTHON}
    return with_identity(
        mine, {name: value for name, value in given.items() if is_the_jobs or not _is_code_variable(name)}
    )


def _is_code_variable(name: str) -> bool:
    """Say whether a variable changes which code an interpreter runs, and how."""
    return name.startswith("PYTHON") or name in _OF_ONE_PYTHON or name in _LOADED

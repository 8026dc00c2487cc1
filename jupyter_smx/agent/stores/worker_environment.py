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
"""Variables that only together identify a user: a mix of two sources identifies none."""


def with_identity(inherited: Mapping[str, str], given: Mapping[str, str]) -> Dict[str, str]:
    """Add the variables of a job, which replace the credentials as a whole, or leave these as they are.

    A session token of one and keys of another are refused, and a profile is not looked at where keys are inherited.
    """
    taken = set(_IDENTITY) if any(given.get(name) for name in _IDENTITY) else set()
    return {**{name: value for name, value in inherited.items() if name not in taken}, **given}


def worker_environment(
    inherited: Mapping[str, str], given: Mapping[str, str], *, is_ours: bool, is_the_jobs: bool
) -> Dict[str, str]:
    """Build the environment of an fsspec worker from the inherited variables and those of the job.

    ``is_ours`` and ``is_the_jobs``: the worker's Python is that of this process, or that of the job.
    """
    mine = {name: value for name, value in inherited.items() if is_ours or name not in _OF_ONE_PYTHON}
    return with_identity(
        mine, {name: value for name, value in given.items() if is_the_jobs or not _is_code_variable(name)}
    )


def _is_code_variable(name: str) -> bool:
    """Return True if a variable changes the code that an interpreter runs, or how it runs."""
    return name.startswith("PYTHON") or name in _OF_ONE_PYTHON or name in _LOADED

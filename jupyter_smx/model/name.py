"""Names and ids: valid names of jobs, and unused names derived from a requested one."""

from __future__ import annotations

import re

from jupyter_smx.model.errors import ValidationError

MAX_NAME = 63
NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
_ID = re.compile(r"[0-9a-f]{12,32}")
_SUFFIX = 6
MAX_BASE_NAME = MAX_NAME - _SUFFIX - 1
"""A hyphen and the first digits of the id follow."""


def check_base_name(name: str) -> str:
    """Return ``name`` if SageMaker would accept it with our suffix.

    :raises ValidationError: characters or length outside ``[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}``.
    """
    if len(name) <= MAX_BASE_NAME and NAME.fullmatch(name):
        return name
    raise ValidationError(
        f"--name: {name!r} is not a valid job name.",
        field="name",
        value=name,
        rule=f"A name has at most {MAX_BASE_NAME} characters: letters, digits and single inner hyphens.",
        cure=f"For example {base_name(name, 'job')!r}.",
    )


def check_job_name(name: str) -> str:
    """Return an exact name of a job if SageMaker would accept it.

    :raises ValidationError: characters or length outside ``[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}``.
    """
    if len(name) <= MAX_NAME and NAME.fullmatch(name):
        return name
    raise ValidationError(
        f"--job-name: {name!r} is not a valid job name.",
        field="job_name",
        value=name,
        rule=f"A name has at most {MAX_NAME} characters: letters, digits and inner hyphens.",
        cure=f"For example {slug(name)[:MAX_NAME].strip('-') or 'job-1'!r}.",
    )


def base_name(text: str, otherwise: str) -> str:
    """Make what a job may be called of any text; ``otherwise`` where it has no letter or digit that a name may have."""
    return slug(text)[:MAX_BASE_NAME].strip("-") or otherwise


def slug(text: str) -> str:
    """Make a name of any text: letters and digits stay, everything else becomes one hyphen."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", text).strip("-")


def job_name(base_name: str, job_id: str, digits: int = _SUFFIX) -> str:
    """Return the name of a job: the user's base name, shortened if necessary, and the first digits of its id."""
    suffix = job_id[:digits]
    return f"{base_name[: MAX_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def task_name(base_name: str, array_id: str, index: int, digits: int = _SUFFIX) -> str:
    """Name of a task of an array: the array's name and the task's index."""
    suffix = f"{array_id[:digits]}-{index}"
    return f"{base_name[: MAX_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def check_id(job_id: str) -> str:
    """Return ``job_id`` if it has the form of an id.

    :raises ValidationError: not 12 to 32 hexadecimal digits.
    """
    if _ID.fullmatch(job_id):
        return job_id
    raise ValidationError(
        f"id: {job_id!r} is not a job id.", field="id", value=job_id, rule="An id is 12 to 32 hexadecimal digits."
    )

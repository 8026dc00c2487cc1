"""A job once more: the same wish, to be handed in under a new id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.model.errors import ResourceNotFoundError

if TYPE_CHECKING:
    from jupyter_smx.model.job import Job
    from jupyter_smx.model.spec import JobSpec


def spec_again(record: Job, submitted_at: float) -> JobSpec:
    """Give the wish of a job for another run: same code, same variables, same hosts.

    :raises ResourceNotFoundError: the variables that it was sent are gone.
    """
    send = record.spec.send
    if send is not None:
        try:
            os.utime(send.path)  # unused files are deleted when they are a day old, so it begins to be young again
        except OSError as error:
            raise ResourceNotFoundError(
                f"{record.name} cannot run again: the variables that it was sent are gone ({error.strerror}).",
                field="send",
                value=send.path,
                rule="They are kept for a day after the last job that used them.",
                cure="Run its cell again.",
            ) from error
    return msgspec.structs.replace(record.spec, submitted_at=submitted_at)

"""One word, two meanings: what a user wants stopped is a job, or a whole array."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ResourceNotFoundError

if TYPE_CHECKING:
    from jupyter_smx.kernel.client import Client
    from jupyter_smx.model.array import ArraySummary
    from jupyter_smx.model.job import Job


def stop(client: Client, ref: str) -> Job | ArraySummary:
    """Stop the job that a word means, or all tasks of the array that it means.

    The base name of a grid means its array and not the task that happens to be its newest job.

    :raises ResourceNotFoundError: neither is known.
    """
    try:
        job = client.job(ref)
    except ResourceNotFoundError:
        with suppress(ResourceNotFoundError):
            return client.stop_array(ref)
        raise
    if job.spec.array is not None and ref == job.spec.base_name:
        return client.stop_array(job.spec.array.id)
    return client.stop(job.id)

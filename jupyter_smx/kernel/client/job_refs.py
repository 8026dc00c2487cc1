"""Resolve the user's name of a job or an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.errors import ResourceNotFoundError, ValidationError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.array import ArraySummary
from jupyter_smx.model.status import Status, is_final

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import ArrayDetail, Client


def resolve_job(client: Client, ref: str) -> Job:
    """Read the job of a reference.

    :raises ValidationError: it is a whole array; the text names one of its tasks.
    :raises ResourceNotFoundError: there is no such job or array.
    """
    try:
        return client.job(ref)
    except ResourceNotFoundError as unknown:
        try:
            array = client.array(ref)
        except ResourceNotFoundError:
            raise unknown from None
        raise _array_error(array) from None


def resolve_job_or_array(client: Client, ref: str) -> Job | ArrayDetail:
    """Read the job or array of a reference; the base name of a grid is its array's.

    :raises ResourceNotFoundError: there is no such job or array.
    """
    try:
        found = client.job(ref)
    except ResourceNotFoundError as unknown:
        try:
            return client.array(ref)
        except ResourceNotFoundError:
            raise unknown from None
    task = found.spec.array
    return found if task is None or ref not in (found.spec.base_name, task.name, task.id) else client.array(task.id)


class StopResult(Struct, frozen=True):
    """The record after a request to stop, and whether the job or array was over before it."""

    record: Job | ArraySummary
    was_over: bool


def stop_job_or_array(client: Client, ref: str, *, abandon: bool = False) -> StopResult:
    """Stop the job of a reference, or all tasks of its array.

    The base name of a grid is its array's, and not that of the task that happens to be its newest job.

    :raises ResourceNotFoundError: there is no such job or array.
    """
    try:
        found = client.job(ref)
    except ResourceNotFoundError as unknown:
        try:
            return _stop_array(client, ref, abandon=abandon)
        except ResourceNotFoundError:
            raise unknown from None
    if found.spec.array is not None and ref == found.spec.base_name:
        return _stop_array(client, found.spec.array.id, abandon=abandon)
    return StopResult(client.stop(found.id, abandon=abandon), was_over=is_final(found.state))


def _stop_array(client: Client, ref: str, *, abandon: bool) -> StopResult:
    before = client.array(ref, tasks=False)
    stopped = client.stop_array(before.id, abandon=abandon)
    return StopResult(stopped, was_over=not before.counts.remaining_count())


def _array_error(array: ArrayDetail) -> ValidationError:
    failed = next((task for task in array.tasks if task.status is Status.FAILED), None)
    one = failed or next(iter(array.tasks), None)
    return ValidationError(
        f"{array.name} is an array of {array.size} tasks.",
        field="job",
        value=array.name,
        rule="This command takes one job, and each task is a job.",
        cure=f"Name one task, e.g. {one.name}{', which failed' if failed else ''}." if one else "",
    )

"""Build the request to run all tasks of an array again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.array import TaskOverrides
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.rerun_spec import spec_for_rerun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.kernel.client.client import ArrayDetail, Client


class ArrayRerun(Struct, frozen=True, kw_only=True):
    """The request for an array: what all tasks share, their differences in order, its title and its limit."""

    spec: JobSpec
    tasks: tuple[TaskOverrides, ...]
    title: str = ""
    max_concurrent: int = 0


def rerun_request(client: Client, found: Job | ArrayDetail, submitted_at: float) -> JobSpec | ArrayRerun:
    """Return the request to run a job, or all tasks of an array, again.

    :raises ResourceNotFoundError: tasks were deleted, or variables or the folder of code that were sent.
    """
    if isinstance(found, Job):
        return spec_for_rerun(found, submitted_at)
    return array_rerun(client, found, submitted_at)


def array_rerun(client: Client, array: ArrayDetail, submitted_at: float) -> ArrayRerun:
    """Read the tasks of an array and return the request to run them again. One request for each task.

    :raises ResourceNotFoundError: tasks were deleted, or the variables or the folder of code that they were sent.
    """
    if len(array.tasks) < array.size:
        raise ResourceNotFoundError(
            f"{array.name} cannot run again: {array.size - len(array.tasks)} of its {array.size} tasks were deleted.",
            field="job",
            value=array.name,
            rule="An array runs again as a whole.",
            cure="Rerun the tasks that are left one by one, by their names." if array.tasks else "Run its cell again.",
        )
    specs = [spec_for_rerun(client.job(task.id), submitted_at) for task in array.tasks]
    labels = [task.array.label if task.array else "" for task in array.tasks]
    return merge_tasks(specs, labels, title=array.title, max_concurrent=array.max_concurrent)


def merge_tasks(specs: Sequence[JobSpec], labels: Sequence[str], *, title: str, max_concurrent: int) -> ArrayRerun:
    """Divide the specs of tasks into what they share and the hyperparameters and variables of each."""
    first, *others = (spec.hyperparameters.items() for spec in specs)
    shared = dict(item for item in first if all(item in other for other in others))
    tasks = [
        TaskOverrides(
            label=label,
            hyperparameters={name: value for name, value in spec.hyperparameters.items() if name not in shared},
            send=spec.send,
        )
        for spec, label in zip(specs, labels, strict=True)
    ]
    template = replace(specs[0], hyperparameters=shared, send=None)
    return ArrayRerun(spec=template, tasks=tuple(tasks), title=title, max_concurrent=max_concurrent)

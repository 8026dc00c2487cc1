"""Arrays of the scripted controller: tasks are its jobs, and one answer counts them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.name import job_name, task_name
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.array import ArrayCounts, ArraySummary, ArrayTask, TaskOverrides, task_id
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus, is_final

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripted_controller import ScriptedController

    from jupyter_smx.model.records.job import Job


class Wish(msgspec.Struct):
    id: str
    spec: JobSpec
    tasks: tuple[TaskOverrides, ...]
    title: str = ""
    max_concurrent: int = 0


def answer(
    fake: ScriptedController,
    parts: list[str],
    query: dict[str, str],
    body: bytes,
    add: Callable[[str, str, JobSpec], Job],
) -> tuple[int, Any, dict[str, str]]:
    if not parts and body:
        return 201, make(fake, msgspec.json.decode(body, type=Wish), add), {}
    if not parts:
        return 200, {"arrays": [told(fake, each) for each in reversed(fake.arrays.values())]}, {}
    found = next((each for each in fake.arrays.values() if parts and parts[0] in (each.id, each.name)), None)
    if found is None:
        raise ResourceNotFoundError(f"There is no array {parts}.")
    if parts[1:] == ["stop"]:
        for job in tasks(fake, found.id):
            if not is_final(job.state):
                fake.end(job.id, SecondaryStatus.STOPPED)
        return 200, told(fake, found), {}
    ended = int(query.get("ended", 0))
    fake.wait_for(lambda: found.size - told(fake, found).counts.remaining_count() > ended, float(query.get("wait", 0)))
    rows = [summary_of(job) for job in tasks(fake, found.id)] if query.get("tasks", "1") == "1" else []
    return 200, msgspec.to_builtins(told(fake, found)) | {"tasks": rows}, {}


def make(fake: ScriptedController, wish: Wish, add: Callable[[str, str, JobSpec], Job]) -> ArraySummary:
    name, size = job_name(wish.spec.base_name, wish.id), len(wish.tasks)
    fake.arrays[wish.id] = ArraySummary(
        id=wish.id, name=name, base_name=wish.spec.base_name, kind=wish.spec.kind, size=size, title=wish.title,
        max_concurrent=wish.max_concurrent, counts=ArrayCounts(pending=size), created_at=time.time(),
    )  # fmt: skip
    for index, each in enumerate(wish.tasks):
        task = ArrayTask(
            id=wish.id,
            name=name,
            index=index,
            size=size,
            label=each.label,
            values=each.hyperparameters,
            title=wish.title,
        )
        own = wish.spec.hyperparameters | each.hyperparameters
        spec = replace(wish.spec, array=task, hyperparameters=own, send=each.send or wish.spec.send)
        add(task_id(wish.id, index), task_name(wish.spec.base_name, wish.id, index), spec)
    return told(fake, fake.arrays[wish.id])


def tasks(fake: ScriptedController, array: str) -> list[Job]:
    return [job for job in fake.jobs.values() if job.spec.array is not None and job.spec.array.id == array]


def told(fake: ScriptedController, array: ArraySummary) -> ArraySummary:
    counts = dict.fromkeys(("pending", "running", "completed", "failed", "stopped"), 0)
    for job in tasks(fake, array.id):
        word = job.status().value.lower() if is_final(job.state) else "running"
        counts["pending" if job.state is SecondaryStatus.PENDING else word] += 1
    return replace(array, counts=ArrayCounts(**counts))

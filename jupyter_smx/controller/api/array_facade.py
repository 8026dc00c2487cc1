"""Submit the jobs of an array in one transaction; then find, count, await and stop them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from jupyter_smx.model import redaction
from jupyter_smx.model.errors import ResourceInUseError, ValidationError
from jupyter_smx.model.name import check_id, job_name, task_name
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.array import MAX_TASKS, Array, ArrayTask, TaskOverrides, array_summary, task_id
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.lifecycle import transitions

if TYPE_CHECKING:
    from jupyter_smx.controller.api.submission import SubmissionValidator
    from jupyter_smx.controller.scheduling.job_reconciler import JobReconciler
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.job import Job, JobSummary
    from jupyter_smx.model.spec.array import ArraySummary

NAME_DIGITS = 6


class ArrayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for an array: the settings that all tasks share, and the differences of each."""

    spec: JobSpec
    tasks: tuple[TaskOverrides, ...]
    title: str = ""
    max_concurrent: int = 0


class ArrayFacade:
    """Answers requests about arrays."""

    def __init__(self, live_state: LiveState, reconciler: JobReconciler, validator: SubmissionValidator) -> None:
        self._live_state = live_state
        self._records = live_state.store.arrays
        self._reconciler = reconciler
        self._validator = validator
        self._ends: dict[str, float] = {}
        """When each array ended that was listed since; all its tasks are read for it, and it does not change."""

    def submit(self, array_id: str, wish: ArrayRequest, interpreter: str | None = None) -> tuple[ArraySummary, bool]:
        """Admit all tasks, or refuse them all; a repeated request returns the same array.

        ``interpreter`` is the result of :meth:`SubmissionValidator.resolve_interpreter`.

        :raises ValidationError, ResourceLimitError: one of the tasks cannot be a job; nothing was written.
        :raises ResourceInUseError: the id belongs to another request.
        """
        check_id(array_id)
        digest = hashlib.sha256(msgspec.json.encode(wish)).hexdigest()
        known = self._records.array(array_id)
        if known is not None:
            if known.digest != digest:
                raise ResourceInUseError(
                    f"id: array {known.name} already has this id.", field="id", value=array_id, cure="Use a new id."
                )
            return self.summary(known), False
        self._check(wish)
        try:
            return self._admit(array_id, wish, digest, NAME_DIGITS, interpreter), True
        except ResourceInUseError as error:
            if error.field != "name":
                raise
        # Among many arrays of one base name two ids begin alike; all their digits never are.
        return self._admit(array_id, wish, digest, len(array_id), interpreter), True

    def _check(self, wish: ArrayRequest) -> None:
        if not 1 <= len(wish.tasks) <= MAX_TASKS:
            raise ValidationError(
                f"The array has {len(wish.tasks)} tasks.",
                field="tasks",
                value=len(wish.tasks),
                rule=f"An array has 1 to {MAX_TASKS} tasks.",
                cure="Combine work so that there are fewer tasks." if wish.tasks else "",
            )
        if wish.spec.job_name:
            raise ValidationError(
                f"--job-name: an array cannot have the exact name {wish.spec.job_name}.",
                field="job_name",
                value=wish.spec.job_name,
                rule="Each task has a name of its own: that of the array and its index.",
                cure="Use --name.",
            )
        if wish.max_concurrent < 0:
            raise ValidationError(
                f"--max-concurrent: {wish.max_concurrent} tasks at a time.",
                field="max_concurrent",
                value=wish.max_concurrent,
                rule="--max-concurrent is a whole number from 1; 0 means no limit.",
            )
        if len(self._live_state.jobs) + len(wish.tasks) > self._live_state.limits.max_jobs_queued:
            raise checks.queue_full_error(self._live_state.limits)
        # Once for all tasks: to check an array as a dependency, its tasks are counted.
        self._validator.check_dependencies(wish.spec)

    def _admit(
        self, array_id: str, wish: ArrayRequest, digest: str, digits: int, interpreter: str | None
    ) -> ArraySummary:
        base_name = wish.spec.base_name or wish.spec.kind
        name = job_name(base_name, array_id, digits)
        size = len(wish.tasks)
        jobs = []
        for index, each in enumerate(wish.tasks):
            task = ArrayTask(
                id=array_id,
                name=name,
                index=index,
                size=size,
                label=each.label,
                values=redaction.redact_hyperparameters(each.hyperparameters),
                title=wish.title,
                max_concurrent=wish.max_concurrent,
            )
            job = self._validator.new_checked_job(
                task_id(array_id, index), _spec_of(wish.spec, each, task), interpreter
            )
            why = Why(start="queued", sentence=f"Queued, task {index + 1} of {size} of {name}.")
            jobs.append(replace(job, name=task_name(base_name, array_id, index, digits), why=why))
        array = Array(
            id=array_id,
            name=name,
            base_name=base_name,
            kind=wish.spec.kind,
            size=size,
            digest=digest,
            title=wish.title,
            max_concurrent=wish.max_concurrent,
            engine=wish.spec.engine,
            instances=wish.spec.instances(),
            created_at=jobs[0].created_at,
        )
        self._live_state.save(jobs=jobs, array=array)
        self._reconciler.schedule_waiting_jobs()
        return self.summary(array)

    def find(self, ref: str) -> Array:
        """Find an array by id, name, base name (the newest), or the beginning of an id or name.

        :raises ResourceNotFoundError: none or several.
        """
        return self._records.find(ref)

    def summary(self, array: Array) -> ArraySummary:
        """Return the summary of an array, as lists show it."""
        counts = self._records.counts(array.id)
        return array_summary(array, counts, None if counts.remaining_count() else self._end_of(array))

    def _end_of(self, array: Array) -> float | None:
        end = self._ends.get(array.id)
        if end is None and (end := self._records.last_end(array.id)) is not None:
            self._ends[array.id] = end
        return end

    def newest(self, limit: int) -> list[ArraySummary]:
        """Return the newest arrays."""
        return [self.summary(array) for array in self._records.newest(limit)]

    def tasks(self, array: Array) -> list[JobSummary]:
        """Return the tasks of an array in their order, with live values as of now."""
        return self._live_state.refresh_summaries(self._records.tasks(array.id))

    def single_jobs(self, limit: int) -> list[JobSummary]:
        """Return the newest jobs that are no tasks, with live values as of now."""
        return self._live_state.refresh_summaries(self._records.single_jobs(limit))

    async def wait(self, array: Array, ended: int, timeout: float) -> None:
        """Return when more than ``ended`` tasks, or all, have a verdict, or after ``timeout`` seconds."""
        deadline = self._live_state.monotonic() + timeout
        while (live := self._live_state.job_queue.task_count(array.id)) and array.size - live <= ended:
            left = deadline - self._live_state.monotonic()
            if left <= 0:
                return
            await self._live_state.change_signal.wait(left)

    def stop(self, array: Array, *, abandon: bool = False) -> ArraySummary:
        """Set the goal of every task to stop: those that have no hosts are over at once, the others are asked.

        With ``abandon`` their verdicts do not wait for hosts that cannot be reached.
        """
        now = self._live_state.clock()
        live = [job for job in self._live_state.jobs.values() if job.spec.array and job.spec.array.id == array.id]
        wanted = [_stop_task(job, now) for job in live if job.goal not in TERMINAL_GOALS]
        if wanted:
            self._live_state.save(jobs=wanted)
        for job in wanted:
            self._reconciler.reconcile(job.id)
        for job in live if abandon else ():
            self._reconciler.desired_state.abandon(job)
        self._reconciler.schedule_waiting_jobs()
        return self.summary(array)


def _stop_task(job: Job, now: float) -> Job:
    if not job.cluster:
        return transitions.stop_without_hosts(
            replace(job, goal=DesiredState.STOP), "Stopped before the code started.", now
        )
    return transitions.set_terminal_goal(job, DesiredState.STOP, now)


def _spec_of(template: JobSpec, wish: TaskOverrides, task: ArrayTask) -> JobSpec:
    return replace(
        template,
        hyperparameters=template.hyperparameters | wish.hyperparameters,
        send=wish.send or template.send,
        array=task,
    )

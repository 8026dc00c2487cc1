"""Job arrays: jobs that are submitted together and differ in a few values (Slurm's and AWS Batch's word)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.status import SecondaryStatus, Status, status_of

TaskStatus: TypeAlias = Literal["pending", "running", "completed", "failed", "stopped"]
"""State of a task, as arrays count it."""

MAX_TASKS = 10_000
"""Tasks of one array, as in AWS Batch."""
_INDEX_DIGITS = 6
_OUTCOMES: dict[Status, TaskStatus] = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.STOPPED: "stopped",
}


def task_status(step: SecondaryStatus) -> TaskStatus:
    """Return the state of a task at a step: without a verdict and not pending it runs, because it has or had hosts."""
    if step is SecondaryStatus.PENDING:
        return "pending"
    return _OUTCOMES.get(status_of(step), "running")


class ArrayTask(Struct, frozen=True, kw_only=True):
    """Which task of which array a job is.

    ``index`` counts from 0; ``label`` is the task's difference, as ``lr=0.1``; ``title`` the array's, as ``sweep lr``.
    At most ``max_concurrent`` tasks of the array have hosts at a time (0: no limit but capacity).
    """

    id: str
    name: str
    index: int
    size: int
    label: str = ""
    values: dict[str, str] = {}
    """The hyperparameters in which the task differs from the others, URLs without what opens them."""
    title: str = ""
    max_concurrent: int = 0


class TaskOverrides(Struct, frozen=True, kw_only=True):
    """In what one task differs from its array's template: more hyperparameters, and variables of its own."""

    label: str = ""
    hyperparameters: dict[str, str] = {}
    send: Payload | None = None


class ArrayCounts(Struct, frozen=True, kw_only=True):
    """Number of tasks by state; ``stopped`` includes those with a time limit."""

    pending: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    stopped: int = 0

    def finished_count(self) -> int:
        """Count the tasks with a verdict."""
        return self.completed + self.failed + self.stopped

    def remaining_count(self) -> int:
        """Count the tasks without one."""
        return self.pending + self.running

    def status(self) -> Status:
        """Return the status of the array as a whole."""
        if self.remaining_count():
            return Status.IN_PROGRESS
        return Status.FAILED if self.failed else Status.STOPPED if self.stopped else Status.COMPLETED


class ArrayFacts(Struct, frozen=True, kw_only=True):
    """Constant facts of an array; ``created_at`` is seconds since the epoch."""

    id: str
    name: str
    base_name: str
    kind: Literal["train", "process"]
    size: int
    title: str = ""
    max_concurrent: int = 0
    engine: str = ""
    instances: str = ""
    created_at: float = 0.0


class Array(ArrayFacts, frozen=True, kw_only=True):
    """The record of an array; never changed, since the results are in its tasks.

    ``digest`` is the hash of the request that created it.
    """

    digest: str


class ArraySummary(ArrayFacts, frozen=True, kw_only=True):
    """An array in lists."""

    counts: ArrayCounts
    ended_at: float | None = None
    """When the last task ended; None while one has no verdict."""


def task_id(array_id: str, index: int) -> str:
    """Return the id of a task: the beginning of the array's and the index, so that ids sort like the tasks."""
    return f"{array_id[: 32 - _INDEX_DIGITS]}{index:0{_INDEX_DIGITS}x}"


def array_summary(array: Array, counts: ArrayCounts, ended_at: float | None) -> ArraySummary:
    """Return the summary of an array with these counts of tasks."""
    facts = {name: getattr(array, name) for name in ArrayFacts.__struct_fields__}
    return ArraySummary(counts=counts, ended_at=ended_at, **facts)


def format_counts(summary: ArraySummary) -> str:
    """Format the counts: ``4 of 12 done, 1 failed, 2 running``."""
    counts = summary.counts
    parts = [f"{counts.completed} of {summary.size} done"]
    rest = (("failed", counts.failed), ("stopped", counts.stopped), ("running", counts.running))
    return ", ".join([*parts, *(f"{count} {word}" for word, count in rest if count)])

"""Decide whether a job starts, waits or ends without running, by the states of its dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.model.text import format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.array import ArrayCounts

PREFIX = "ClientError: --after: "
FREED = "freed"
"""Key in a job's timings: the moment when its dependencies were met and it joined the queue."""
_WAIT_PREFIX = "Queued. Waiting for "


class Predecessor(Struct, frozen=True, kw_only=True):
    """A job, or an array, that another job waits for, as it is now.

    ``status`` None means that its record was deleted; ``reason`` is the failure reason.
    """

    name: str
    status: Status | None
    reason: str = ""


class DependencyState(Struct, frozen=True, kw_only=True):
    """The dependencies of a job: the jobs that it waits for, or its status if it ends without running."""

    waits_for: tuple[str, ...] = ()
    verdict: SecondaryStatus | None = None
    reason: str = ""

    def is_satisfied(self) -> bool:
        """Return True if all dependencies are met."""
        return not self.waits_for and self.verdict is None

    def sentence(self) -> str:
        """Name the jobs that the job waits for, if any."""
        return f"{_WAIT_PREFIX}{format_list(self.waits_for)}." if self.waits_for else "Queued."


NO_DEPENDENCIES = DependencyState()


def is_waiting_for_dependencies(job: Job) -> bool:
    """Return True if a job's record shows that it waits for dependencies."""
    return job.why is not None and job.why.sentence.startswith(_WAIT_PREFIX)


def mark_dependencies_met(job: Job, now: float) -> Job:
    """Record that all dependencies of a job are met."""
    why = Why(start="queued", sentence=NO_DEPENDENCIES.sentence())
    return replace(job, why=why, timings={**job.timings, FREED: now})


def resolve_dependencies(predecessors: Sequence[Predecessor]) -> DependencyState:
    """Decide for a job that waits for ``predecessors``: all must have completed.

    The first one that did not complete ends the job, even if others still run, because it can never start.
    """
    for each in predecessors:
        if each.status is None:
            gone = f"{PREFIX}the record of {each.name} was deleted, so its result is unknown."
            return DependencyState(verdict=SecondaryStatus.FAILED, reason=gone)
        if each.status is Status.FAILED:
            why = each.reason.removeprefix(PREFIX)
            return DependencyState(
                verdict=SecondaryStatus.FAILED, reason=f"{PREFIX}{each.name} failed: {why}".rstrip(": ")
            )
        if each.status is Status.STOPPED:
            told = f"Stopped before it started, because {each.name} (--after) was stopped."
            return DependencyState(verdict=SecondaryStatus.STOPPED, reason=told)
    return DependencyState(waits_for=tuple(each.name for each in predecessors if each.status is not Status.COMPLETED))


def array_dependency_status(counts: ArrayCounts, size: int) -> Status | None:
    """Return the status of an array of ``size`` tasks as a dependency; one task that did not complete decides.

    None if tasks were deleted, because their status is unknown.
    """
    if counts.failed:
        return Status.FAILED
    if counts.stopped:
        return Status.STOPPED
    if counts.finished_count() + counts.remaining_count() < size:
        return None
    return Status.IN_PROGRESS if counts.remaining_count() else Status.COMPLETED

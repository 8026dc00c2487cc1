"""Time limits of a launch, and messages of jobs whose hosts wait at their engine's scheduler."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model import redaction
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.model.status import TERMINAL_GOALS, SecondaryStatus, message_of
from jupyter_smx.model.text import format_duration, format_moment
from jupyter_smx.policy.lifecycle import renewal, transitions

if TYPE_CHECKING:
    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.records.cluster import Cluster, Handle
    from jupyter_smx.model.records.job import Job

WAIT_PREFIX = "Waiting at the engine "
"""Seconds from which on a time of the day needs its date."""


class LaunchTimer(Struct, frozen=True):
    """From when the limit of a launch counts, by a clock that only runs forward; while it ``waits`` there is none."""

    counted_from: float
    waits: bool = False

    def seconds_left(self, now: float, limit: float) -> float | None:
        """Return the seconds until the time limit of the launch, 0 at least; None without a limit."""
        return None if self.waits else max(0.0, self.counted_from + limit - now)


def is_no_room(error: SmxError) -> bool:
    """Return True if an engine launched nothing and may have hosts later, so that the job only waits in the queue."""
    return isinstance(error, RefusedError) and error.transient


class LaunchStep(Enum):
    """What to do after a launch whose outcome is unknown, because its engine did not answer or took too long."""

    GO_ON = "it is there: acquire it again, which goes on with it"
    WAIT = "it may still come: acquire the same cluster again later"
    CONCLUDE = "it failed: release what there is, and launch another cluster"


def next_launch_step(cluster: Cluster, *, found: bool | None, is_late: bool) -> LaunchStep:
    """Decide what follows a launch whose outcome is unknown.

    ``found`` is True if the engine finds the cluster by its id, None if it does not answer that either. ``is_late`` is
    True if the time limit of the launch is over. A cluster that never had a handle keeps its id, by which late hosts
    are found. If it had a handle and is not found, the launch failed.
    """
    if found is None:
        return LaunchStep.WAIT
    if is_late:
        return LaunchStep.CONCLUDE
    if found:
        return LaunchStep.GO_ON
    return LaunchStep.WAIT if cluster.handle is None else LaunchStep.CONCLUDE


def extend_launch(timer: LaunchTimer, told: Handle | QueueStatus, now: float) -> LaunchTimer:
    """Update the timer of a launch after a report of its engine."""
    if isinstance(told, QueueStatus):
        return LaunchTimer(now, waits=True)
    return LaunchTimer(now) if timer.waits else timer


def is_wait_over(timer: LaunchTimer, cluster: Cluster, handle: Handle) -> bool:
    """Return True if a handle ends a wait; ``timer`` is the one before it.

    The first handle after a restart of the controller, without hosts, only names the request that still waits.
    """
    return cluster.waiting is not None and (timer.waits or bool(handle.hosts))


def is_unwanted(cluster: Cluster, job: Job | None, now: float) -> bool:
    """Return True if hosts still wait at their engine for a job that should end, or to continue a pool that is over."""
    if cluster.waiting is None:
        return False
    if renewal.is_without_job(cluster):
        return renewal.is_unwanted(cluster, now)
    return job is None or job.goal in TERMINAL_GOALS


def record_wait(job: Job, engine: str, status: QueueStatus, now: float) -> Job:
    """Record on a job that its hosts wait at their engine, and for what."""
    sentence = format_wait(engine, status, now)
    return _with_note(transitions.remark(job, sentence), sentence)


def record_wait_over(job: Job, engine: str, since: float, now: float) -> Job:
    """Record on a job that its hosts are starting, and how long it waited; ``since`` is their request."""
    starts = (row.start_time for row in job.transitions if row.status is SecondaryStatus.STARTING)
    since = max((since, *starts))
    note = f"It waited {format_duration(max(0.0, now - since))} at the engine {engine}."
    if transitions.remark_of(job).startswith(WAIT_PREFIX):
        job = transitions.remark(job, message_of(job.state))
    return _with_note(job, note)


def _with_note(job: Job, note: str) -> Job:
    if job.why is None:
        return job
    others = (each for each in job.why.notes if not each.startswith(WAIT_PREFIX))
    return replace(job, why=replace(job.why, notes=(note, *others)))


def pool_reason(cluster: Cluster, now: float) -> str:
    """Return the reason of a cluster for lists; no job says what hosts wait for that continue a pool."""
    if cluster.waiting is None or not renewal.is_without_job(cluster):
        return cluster.reason
    return f"{cluster.reason} {format_wait(cluster.key.engine, cluster.waiting, now)}"


def format_wait(engine: str, status: QueueStatus, now: float) -> str:
    """Format the wait of hosts: ``Waiting at the engine slurm: Resources, position 3, expected to start at 14:05``."""
    parts = [redaction.redact_text(status.reason).strip().rstrip(".")]
    if status.position is not None:
        parts.append(f"position {status.position}")
    if status.expected_start is not None:
        parts.append(f"expected to start at {format_moment(status.expected_start, now)}")
    said = ", ".join(part for part in parts if part)
    return f"{WAIT_PREFIX}{engine}{': ' if said else ''}{said}."

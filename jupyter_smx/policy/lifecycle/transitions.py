"""Pure changes of records: state transitions of jobs and of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState, WarmPool, WarmPoolStatus
from jupyter_smx.model.records.job import (
    Attempt,
    HostEnd,
    Job,
    Transition,
    attempt_started_at,
    current_attempt_transitions,
)
from jupyter_smx.model.status import ACTIVE_STEPS, DesiredState, SecondaryStatus, can_transition, is_final, message_of
from jupyter_smx.policy.lifecycle import image_pull, keep_alive

if TYPE_CHECKING:
    from jupyter_smx.model.results.usage import PlatformUsage
    from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision

_ATTEMPT_TIMINGS = ("committed", "sent", "received", "awake", "first_line", "exited", "ended")
_OWN_OUTCOMES = (SecondaryStatus.COMPLETED, SecondaryStatus.FAILED)
"""Outcomes of code that ended by itself; an interrupted run has another one, and so has a stopped or timed-out one."""


def advance(job: Job, state: SecondaryStatus, now: float, message: str = "") -> Job:
    """Move a job to a state; return the same record for outdated events."""
    if not can_transition(job.state, state):
        return job
    final = is_final(state)
    ran = attempt_seconds(job, now) if final else None
    begins = state in ACTIVE_STEPS and attempt_started_at(job) is None
    counted_from = now if begins else job.counted_from
    now = _clamp_time(job, now)
    entry = Transition(
        status=state,
        start_time=now,
        end_time=now if final else None,
        status_message=message or message_of(state),
    )
    return replace(
        job,
        state=state,
        transitions=(*_close_last_row(job.transitions, now), entry),
        modified_at=now,
        started_at=now if job.started_at is None and state in ACTIVE_STEPS else job.started_at,
        ended_at=now if final else job.ended_at,
        ran_seconds=ran,
        counted_from=counted_from,
    )


def _clamp_time(job: Job, now: float) -> float:
    """Return the time for a job's event, not before its earlier ones, because the clock may have been set back."""
    return max([now, *(row.start_time for row in job.transitions[-1:]), job.started_at or now])


def record_image_pull(job: Job, message: str, now: float) -> Job:
    """Record the progress of an image download on a job without hosts; it is not billed, and nothing runs yet."""
    if job.state is SecondaryStatus.DOWNLOADING:
        return remark(job, message)
    return _set_state(job, SecondaryStatus.DOWNLOADING, message, now)


def record_image_pulled(job: Job, message: str, now: float) -> Job:
    """Move a job whose image is available to the state of jobs that wait for hosts and needed no download."""
    if job.state is not SecondaryStatus.DOWNLOADING:
        return remark(job, message)
    return _set_state(job, SecondaryStatus.PENDING, message, now)


def is_pulling_image(job: Job) -> bool:
    """Return True if a job's image is being downloaded, before it has hosts."""
    wants = bool(job.spec.image) and not image_pull.is_available(job)
    return wants and job.state is SecondaryStatus.DOWNLOADING and not job.cluster


def _set_state(job: Job, state: SecondaryStatus, message: str, now: float) -> Job:
    now = _clamp_time(job, now)
    entry = Transition(status=state, start_time=now, status_message=message)
    return replace(job, state=state, transitions=(*_close_last_row(job.transitions, now), entry), modified_at=now)


def remark(job: Job, message: str) -> Job:
    """Replace the message of a job's current step; return the same record if it is equal."""
    if not job.transitions or job.transitions[-1].status_message == message:
        return job
    *before, last = job.transitions
    return replace(job, transitions=(*before, replace(last, status_message=message)))


def remark_of(job: Job) -> str:
    """Return the message of a job's current step."""
    return job.transitions[-1].status_message if job.transitions else ""


def stop_before_start(job: Job, reason: str, now: float) -> Job:
    """Stop a job whose code does not run: by request, or at its maximum wait time, which adds two transitions."""
    if job.goal is not DesiredState.EXPIRE:
        return advance(job, SecondaryStatus.STOPPED, now, reason)
    return advance(advance(job, SecondaryStatus.STOPPING, now), SecondaryStatus.MAX_WAIT_TIME_EXCEEDED, now)


def stop_without_hosts(job: Job, reason: str, now: float) -> Job:
    """Stop a job that has no hosts."""
    pool = WarmPool(status=WarmPoolStatus.TERMINATED, reason="No hosts were launched.")
    return replace(stop_before_start(job, reason, now), warm_pool=pool)


def interrupt(job: Job, now: float) -> Job:
    """Set a job's goal to interrupted: its hosts are taken away, and it returns to its start."""
    return advance(replace(job, goal=DesiredState.INTERRUPT), SecondaryStatus.INTERRUPTED, now)


def set_terminal_goal(job: Job, goal: DesiredState, now: float) -> Job:
    """Return the job with a goal that ends it; if it has hosts, it is stopping from now on."""
    wanted = replace(job, goal=goal, modified_at=now)
    return advance(wanted, SecondaryStatus.STOPPING, now) if job.cluster else wanted


def set_keep_alive(job: Job, seconds: int, now: float) -> Job:
    """Set the keep-alive of a job after its submission, which is a change of the job."""
    return replace(job, keep_alive=seconds, modified_at=max(now, job.last_modified_at()))


def abandon(job: Job) -> Job:
    """Mark a job so that its stop does not wait for unreachable hosts."""
    return replace(job, abandoned=True)


def start_next_attempt(
    job: Job, reason: str, ends: tuple[HostEnd, ...], now: float, *, interrupted: bool = False
) -> Job:
    """Move a job to the start of another attempt, without hosts; SageMaker shows it as ``Starting`` again."""
    ran = attempt_seconds(job, now)
    now = _clamp_time(job, now)
    began = attempt_started_at(job)
    if began is None and job.transitions:
        # No report of its start arrived, and it may have run: count its time from the search for hosts.
        began = job.transitions[-1].start_time
    over = Attempt(
        number=job.attempt,
        cluster=job.cluster,
        reason=reason,
        started_at=began,
        ended_at=now,
        hosts=ends,
        ran_seconds=ran,
        interrupted=interrupted,
    )
    number, most = job.attempt + 1, job.max_attempts() + interrupted
    entry = Transition(
        status=SecondaryStatus.STARTING, start_time=now, status_message=f"Attempt {number} of {most}, after {reason}"
    )
    return replace(
        job,
        goal=DesiredState.RUN,
        state=SecondaryStatus.STARTING,
        cluster="",
        lease=0,
        attempt=number,
        attempts=(*job.attempts, over),
        placements=1,
        transitions=(*_close_last_row(job.transitions, now), entry),
        modified_at=now,
        counted_from=None,
        warm_pool=None,
        timings={name: at for name, at in job.timings.items() if name not in _ATTEMPT_TIMINGS},
    )


def is_attempt_interrupted(job: Job) -> bool:
    """Return True if an interruption ended the current run; code that completed or failed anyway ended by itself."""
    rows = current_attempt_transitions(job)
    return job.state not in _OWN_OUTCOMES and any(row.status is SecondaryStatus.INTERRUPTED for row in rows)


def attempt_seconds(job: Job, now: float) -> float | None:
    """Return the seconds that the hosts have worked in this attempt; None if no start is recorded.

    Changes of the clock meanwhile do not count.
    """
    return None if job.counted_from is None else max(0.0, now - job.counted_from)


def shift_job_times(job: Job, seconds: float) -> Job:
    """Record on a running job that the clock was changed by ``seconds`` meanwhile."""
    return replace(
        job,
        counted_from=None if job.counted_from is None else job.counted_from + seconds,
        wait_until=None if job.wait_until is None else job.wait_until + seconds,
    )


def _close_last_row(rows: tuple[Transition, ...], now: float) -> tuple[Transition, ...]:
    if not rows or rows[-1].end_time is not None:
        return rows
    return (*rows[:-1], replace(rows[-1], end_time=now))


def idle_seconds(cluster: Cluster, now: float) -> float:
    """Count the seconds since the pool became idle; 0 while in use."""
    if cluster.available_since is None:
        return 0.0
    return max(0.0, now - cluster.available_since)


def shift_pool_times(cluster: Cluster, seconds: float) -> Cluster:
    """Return an idle pool with its times shifted by ``seconds``, the amount by which the clock was changed."""
    return replace(
        cluster,
        available_since=None if cluster.available_since is None else cluster.available_since + seconds,
        expires_at=None if cluster.expires_at is None else cluster.expires_at + seconds,
    )


def lease_pool(cluster: Cluster, job_id: str, now: float) -> Cluster:
    """Return the pool, leased to a job with a new lease number."""
    return replace(
        cluster,
        keep_alive=keep_alive.pool_keep_alive(cluster),
        state=ClusterState.IN_USE,
        lease=cluster.lease + 1,
        job=job_id,
        retained_seconds=cluster.retained_seconds + idle_seconds(cluster, now),
        available_since=None,
        expires_at=None,
        kept_for="",
    )


def mark_ready(cluster: Cluster, now: float) -> Cluster:
    """Record that all hosts of a launch can take a job; hosts that continue a pool may have none yet."""
    if cluster.job or not cluster.renewal_of:
        return replace(cluster, state=ClusterState.IN_USE)
    return replace(cluster, state=ClusterState.AVAILABLE, available_since=now, waiting=None)


def join_launch(cluster: Cluster, job_id: str, now: float) -> Cluster:
    """Return hosts that are being launched to continue a pool, leased to a job that waits for them."""
    return replace(lease_pool(cluster, job_id, now), state=ClusterState.PROVISIONING)


def detach_job(cluster: Cluster, job_name: str, keep: KeepDecision, now: float) -> Cluster:
    """Keep the hosts for a while after a job, or begin to release them."""
    served = replace(cluster, job="", last_job=job_name, jobs_served=cluster.jobs_served + 1)
    if keep.seconds <= 0:
        return replace(served, state=ClusterState.RELEASING, reason=keep.reason)
    return replace(
        served,
        state=ClusterState.AVAILABLE,
        available_since=now,
        expires_at=now + keep.seconds,
        kept_for=keep.kept_for,
        reason=keep.reason,
    )


def release(cluster: Cluster, reason: str, now: float) -> Cluster:
    """Begin to free a cluster."""
    return replace(
        cluster,
        state=ClusterState.RELEASING,
        reason=reason,
        retained_seconds=cluster.retained_seconds + idle_seconds(cluster, now),
        available_since=None,
        expires_at=None,
    )


def mark_terminated(cluster: Cluster, reason: str, now: float) -> Cluster:
    """Record that a cluster has no hosts any more."""
    gone = release(cluster, reason or cluster.reason, now)
    return replace(gone, state=ClusterState.TERMINATED, job="", ended_at=now)


def pool_in_use() -> WarmPool:
    """Return the record of a job's pool if another job left that pool."""
    return WarmPool(status=WarmPoolStatus.IN_USE)


def pool_of_job(keep: KeepDecision) -> WarmPool:
    """Return the record of a finished job's pool: kept or released."""
    if keep.seconds > 0:
        return WarmPool(status=WarmPoolStatus.AVAILABLE, reason=keep.reason)
    return WarmPool(status=WarmPoolStatus.TERMINATED, reason=keep.reason)


def set_pool_reused(job: Job, by: str, retained: float) -> Job:
    """Record on the last job that another one reused its pool; ``retained`` is seconds idle."""
    pool = WarmPool(status=WarmPoolStatus.REUSED, reused_by_job=by, resource_retained_billable_seconds=round(retained))
    return replace(job, warm_pool=pool)


def set_platform_usage(job: Job, usage: PlatformUsage) -> Job:
    """Add to the last job of a pool what the platform accounted for the hosts; a job without a pool stays."""
    if job.warm_pool is None:
        return job
    before = job.warm_pool.platform_usage  # of another allocation of the same pool
    return replace(job, warm_pool=replace(job.warm_pool, platform_usage=before.plus(usage) if before else usage))


def set_pool_terminated(job: Job, reason: str, retained: float) -> Job:
    """Record on the last job that its pool is gone; ``retained`` is seconds idle."""
    pool = WarmPool(status=WarmPoolStatus.TERMINATED, reason=reason, resource_retained_billable_seconds=round(retained))
    return replace(job, warm_pool=pool)

"""Decide when a pool whose allocation ends gets another one, and what becomes of both.

The hosts of an allocation end with it, so the pool continues on another cluster, its successor:

===================================================  ===========================================================
pool                                                 step
===================================================  ===========================================================
its renewal is due, and it is kept beyond the end    request a successor, which is kept as long as the pool
the user or a job changed how long it is kept        the same for its successor
it is not kept beyond the end any more               withdraw the successor
it is released, or its job ends and it is not kept   end the successor in the same transaction
it is idle, and its successor is ready               release it: the successor has the rest of its keep-alive
its successor was refused, or released by the user   note a refusal; the pool ends with its allocation
its successor ended otherwise                        request another one a minute later, if its renewal is due
===================================================  ===========================================================

A job takes the successor as any pool, or while that waits for its hosts and has time for it. A job never moves from one
to the other.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.policy.lifecycle import keep_alive, transitions

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

_PREFIX = "Its allocation is not renewed: "
NOT_KEPT = "The pool that it continues is not kept any longer."
RETRY = 60.0
"""Seconds from the end of a successor until its pool may request another one."""


class RenewalStep(Enum):
    """The one thing to do for a pool that may get another allocation."""

    NOTHING = "nothing"
    REQUEST = "request a successor"
    SET_END = "keep the successor as long as the pool"
    WITHDRAW = "the pool needs no successor any more"
    HAND_OVER = "release the pool, since its successor is ready"


def keep_seconds(pool: Cluster, job: Job | None) -> int:
    """Return the keep-alive of a pool in seconds; after its job, while it has one."""
    if pool.state is ClusterState.IN_USE and job is not None:
        return keep_alive.keep_alive_after(job.wanted_keep_alive(), pool)
    return keep_alive.pool_keep_alive(pool)


def kept_until(pool: Cluster, job: Job | None) -> float | None:
    """Return until when a pool is kept beyond the end of its allocation; None if it is not.

    A job may run up to that end, and the keep-alive begins after the job.
    """
    end = pool.handle.allocation_ends_at if pool.handle is not None else None
    if end is None or pool.kept_for:
        return None
    if pool.state is ClusterState.AVAILABLE:
        return pool.expires_at if pool.expires_at is not None and pool.expires_at > end else None
    if pool.state is ClusterState.IN_USE:
        return end + keep_seconds(pool, job) if keep_seconds(pool, job) > 0 else None
    return None


def is_due(pool: Cluster, job: Job | None, now: float) -> bool:
    """Return True if the next allocation of a pool is requested now: it would be kept although its job ended now."""
    handle, until = pool.handle, kept_until(pool, job)
    if handle is None or handle.renewal is None or handle.allocation_ends_at is None:
        return False
    if pool.renewed_by or until is None or not handle.renewal.at <= now < handle.allocation_ends_at:
        return False
    return pool.state is ClusterState.AVAILABLE or now + keep_seconds(pool, job) > handle.allocation_ends_at


def next_renewal_step(pool: Cluster, job: Job | None, successor: Cluster | None, now: float) -> RenewalStep:
    """Decide the next step for a pool; ``job`` has its hosts, ``successor`` is the live cluster of ``renewed_by``."""
    if successor is None:
        return RenewalStep.REQUEST if is_due(pool, job, now) else RenewalStep.NOTHING
    if (
        successor.job
        or not _is_kept(pool)
        or successor.state not in (ClusterState.PROVISIONING, ClusterState.AVAILABLE)
    ):
        return RenewalStep.NOTHING
    until = kept_until(pool, job)
    if until is not None and successor.state is pool.state is ClusterState.AVAILABLE:
        return RenewalStep.HAND_OVER
    if successor.jobs_served:
        return RenewalStep.NOTHING
    if until is None:
        return RenewalStep.WITHDRAW
    is_equal = (successor.expires_at, successor.keep_alive) == (until, keep_seconds(pool, job))
    return RenewalStep.NOTHING if is_equal else RenewalStep.SET_END


def successor_of(pool: Cluster, job: Job | None, new_id: str, now: float) -> Cluster:
    """Return the record of the cluster that continues a pool, before it has hosts."""
    return Cluster(
        id=new_id,
        key=pool.key,
        created_at=now,
        expires_at=kept_until(pool, job),
        keep_alive=keep_seconds(pool, job),
        renewal_of=pool.id,
        renewal=pool.handle.renewal if pool.handle is not None else None,
        reason=f"Continues pool {pool.name()}, whose allocation ends.",
    )


def _is_kept(pool: Cluster) -> bool:
    return pool.state in (ClusterState.AVAILABLE, ClusterState.IN_USE)


def is_without_job(cluster: Cluster) -> bool:
    """Return True for a successor that no job has."""
    return bool(cluster.renewal_of) and not cluster.job


def has_time(successor: Cluster, max_run: float) -> bool:
    """Return True if a job can run in an allocation that waits for as long as in one of its own."""
    plan = successor.renewal
    if plan is None or plan.max_run is None:
        return True
    return plan.max_run >= (max_run if plan.longest_run is None else min(max_run, plan.longest_run))


def is_unwanted(successor: Cluster, now: float) -> bool:
    """Return True if the keep-alive of the pool that a successor continues is over."""
    return successor.expires_at is None or successor.expires_at <= now


def may_repeat(ended: Cluster | None, now: float) -> bool:
    """Return True if a pool whose successor has ended may request another one; not at once, if launches fail."""
    return ended is None or (not ended.is_live() and now >= (ended.ended_at or 0.0) + RETRY)


def not_renewed(pool: Cluster | None, successor: Cluster, refusal: str = "") -> list[Cluster]:
    """Return the record of a pool that gets no other allocation, after its successor was refused or released."""
    if pool is None or pool.handle is None or pool.renewed_by != successor.id or not _is_kept(pool):
        return []
    reason = f"{_PREFIX}{refusal}" if refusal else pool.reason
    return [replace(pool, handle=replace(pool.handle, renewal=None), reason=reason)]


def ended_with(successor: Cluster | None, now: float) -> list[Cluster]:
    """Return the record of a successor after the decision not to keep its pool; none if a job has or had its hosts."""
    if successor is None or not is_without_job(successor) or successor.jobs_served:
        return []
    if successor.state is ClusterState.AVAILABLE:
        return [transitions.release(successor, NOT_KEPT, now)]
    return [replace(successor, expires_at=now)] if successor.state is ClusterState.PROVISIONING else []


def withdraw(pool: Cluster, successor: Cluster, now: float) -> list[Cluster]:
    """Return both records after a pool needs no successor any more; it may get another one later."""
    return [replace(pool, renewed_by=""), *ended_with(successor, now)]

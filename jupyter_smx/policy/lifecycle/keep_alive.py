"""Decide how long hosts are kept: the job's request, the cap, the quota, dependent jobs, and arrays.

========================  ==========================================================
request                   answer
========================  ==========================================================
none                      a kept pool keeps its keep-alive, which begins again; new hosts are released
0                         the pool ends with the job
up to the cap             granted
over the cap              refused at submission, with the cap and its source
set while the job runs    counts after the job in the place of its own
quota of the type full    granted at submission, said in ``why``; not kept at the end
chain older than its end  not kept
allocation ends before    kept up to the end of the allocation; an extension beyond it is refused
it is renewed             the same with the end of the next allocation
========================  ==========================================================

Source: SageMaker managed warm pools. There a missing quota is silent, and a job without a keep-alive ends the pool.

Hosts of a task of an array stay for its next task, also if neither the task nor the pool has a keep-alive:

==========================================  ================================================================
at the end of a task                        its hosts
==========================================  ================================================================
the task asked for a keep-alive             are kept as after any job
other tasks of the array wait for hosts     are kept for them, for ``HAND_OVER`` seconds at most
they reached the maximum age of a pool      are released, as after any job: the next task has new ones
no task waits any more                      are released, and so are those that were kept for one
==========================================  ================================================================

The quota for warm instances does not count for them: it limits hosts that wait for a job that may never come, and
these have a task at once. New hosts are launched as for any job: while there is room, and up to the array's
``max_concurrent``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.errors import ResourceInUseError, ResourceLimitError, ValidationError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.limits import HARD_KEEP_ALIVE, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.instance import InstanceGroup

HAND_OVER = 45
"""Seconds; an agent waits a minute after a job without keep-alive, so it never ends before this time is over."""


class KeepDecision(Struct, frozen=True):
    """Seconds to keep the hosts idle (0: release them), the reason, and the id of the array that they are kept for."""

    seconds: int
    reason: str = ""
    kept_for: str = ""


def check(seconds: int | None, limits: Limits, *, of_a_pool: bool = False) -> None:
    """Refuse an invalid keep-alive of a job request or, with ``of_a_pool``, of an existing pool; None is valid.

    :raises ValidationError: it is negative.
    :raises ResourceLimitError: over the administrator's cap or SageMaker's maximum.
    """
    asked, later = ("DURATION", "extend it again") if of_a_pool else ("--keep-alive", "extend the pool")
    if seconds is None:
        return
    if seconds < 0:
        raise ValidationError(
            f"{asked}: {seconds} seconds.",
            field="keep_alive",
            value=seconds,
            rule="A keep-alive is 0 or more seconds; 0 keeps no hosts.",
            cure=f"For example {asked} 10m." if not of_a_pool else "For example 10m; to end a pool, use release.",
        )
    cap = min(limits.keep_alive_cap, HARD_KEEP_ALIVE)
    if seconds > cap:
        raise ResourceLimitError(
            f"{asked}: {format_duration(seconds)} is above the limit of {format_duration(cap)}.",
            field="keep_alive",
            value=seconds,
            rule="The administrator sets the limit with ControllerApp.keep_alive_cap in jupyter_smx_config.py.",
            cure=f"Use {cap} seconds or less, or {later} later.",
        )


def warm_pool_quota_error(groups: Iterable[InstanceGroup], kept: Iterable[Cluster], limits: Limits) -> str:
    """Return the instance type that exceeds the warm-pool quota, as a message; empty if there is room or no quota."""
    # Hosts for the next task of an array do not wait for a job that may never come.
    idle = (one for one in kept if one.state is ClusterState.AVAILABLE and not one.kept_for)
    held = _count_by_type(group for cluster in idle for group in cluster.key.instance_groups)
    for kind, count in _count_by_type(groups).items():
        quota = limits.warm_pool_quota.get(kind, limits.warm_pool_quota.get("*"))
        if quota is not None and held[kind] + count > quota:
            return (
                f"The quota for warm {kind} instances is {quota}; {held[kind]} are in use and this needs "
                f"{count}. The administrator sets it with ControllerApp.warm_pool_quota."
            )
    return ""


def _count_by_type(groups: Iterable[InstanceGroup]) -> Counter[str]:
    """Count the instances of each type: groups of one type count together."""
    found = Counter[str]()
    for group in groups:
        found[group.instance_type] += group.instance_count
    return found


def holder_error(job: Job) -> ResourceInUseError:
    """Make the refusal to change the keep-alive of a job that has ended and retains no pool."""
    return ResourceInUseError(
        f"{job.name} retains no warm pool.",
        field="job",
        value=job.name,
        rule="The keep-alive of a job can change while it runs, and then until another job takes its pool.",
        cure="Start the next job with --keep-alive.",
    )


def remaining_pool_lifetime(cluster: Cluster, limits: Limits, now: float) -> int:
    """Return the seconds for which hosts may still be kept; less than 1 if they are too old."""
    return int(cluster.created_at + limits.max_keep_alive_chain - now)


def remaining_allocation(cluster: Cluster, now: float) -> int | None:
    """Return the seconds until the platform ends the hosts by itself; None if it does not, or if that is not known.

    With a renewal, the next allocation counts, too: the pool continues on its hosts.
    """
    handle = cluster.handle
    if handle is None or handle.allocation_ends_at is None:
        return None
    renewed = handle.renewal.seconds if handle.renewal is not None else 0.0
    return max(0, int(handle.allocation_ends_at + renewed - now))


def remaining_seconds(cluster: Cluster, limits: Limits, now: float) -> int:
    """Return the seconds for which hosts may still be kept, by their age and by their allocation."""
    allocated = remaining_allocation(cluster, now)
    left = remaining_pool_lifetime(cluster, limits, now)
    return left if allocated is None else min(left, allocated)


def check_allocation(cluster: Cluster, seconds: int, now: float) -> None:
    """Refuse to keep hosts longer than their allocation lasts.

    :raises ResourceLimitError: it ends before; the text has the time that is left.
    """
    left = remaining_allocation(cluster, now)
    if left is None or seconds <= left:
        return
    raise ResourceLimitError(
        f"DURATION: {format_duration(seconds)} is more than the {format_duration(left)} that are left.",
        field="keep_alive",
        value=seconds,
        rule=f"The engine {cluster.key.engine} got the hosts of pool {cluster.name()} for a limited time.",
        cure=f"Use {left} seconds or less." if left else "Start the next job, which gets new hosts.",
    )


def pool_keep_alive(cluster: Cluster) -> int:
    """Return the keep-alive of a pool in seconds, 0 if it has none.

    Records of earlier versions have only the moments between which the pool is idle.
    """
    if cluster.keep_alive is not None:
        return cluster.keep_alive
    if cluster.expires_at is None or cluster.available_since is None or cluster.kept_for:
        return 0
    return max(0, round(cluster.expires_at - cluster.available_since))


def keep_alive_after(seconds: int | None, cluster: Cluster | None) -> int:
    """Return the keep-alive in seconds that counts after a job: ``seconds`` or, if that is None, that of its pool."""
    if seconds is not None:
        return seconds
    return pool_keep_alive(cluster) if cluster is not None else 0


def decide_after_job(
    cluster: Cluster, seconds: int, others: Iterable[Cluster], limits: Limits, now: float
) -> KeepDecision:
    """Decide at the end of a job whether its hosts stay, and for how long."""
    if seconds <= 0:
        return KeepDecision(0, "The job asked for no keep-alive.")
    full = warm_pool_quota_error(cluster.key.instance_groups, others, limits)
    if full:
        return KeepDecision(0, full)
    left = remaining_pool_lifetime(cluster, limits, now)
    if left < 1:
        return KeepDecision(0, f"The pool reached its maximum age of {format_duration(limits.max_keep_alive_chain)}.")
    left = remaining_seconds(cluster, limits, now)
    if left < 1:
        return KeepDecision(0, "The allocation of its hosts has ended.")
    return KeepDecision(min(seconds, left))


def decide_after_task(job: Job, keep: KeepDecision, left: int, *, others_wait: bool) -> KeepDecision:
    """Decide at the end of a job whether its hosts wait for the next task of its array; ``keep`` is for any job.

    ``left`` is the number of seconds after which the hosts are too old to be kept.
    """
    array = job.spec.array
    if array is None or keep.seconds > 0 or job.wanted_keep_alive() or not others_wait or left < 1:
        return keep
    return KeepDecision(min(HAND_OVER, left), f"Kept for the next task of {array.name}.", array.id)


def is_expired(cluster: Cluster, now: float) -> bool:
    """Return True if a pool is idle and its keep-alive is over."""
    return cluster.state is ClusterState.AVAILABLE and cluster.expires_at is not None and cluster.expires_at <= now


def unneeded_pools(clusters: Iterable[Cluster], awaits_hosts: Callable[[str], bool]) -> list[Cluster]:
    """Find the idle pools that were kept for arrays none of whose tasks waits any more."""
    kept = [cluster for cluster in clusters if cluster.kept_for and cluster.state is ClusterState.AVAILABLE]
    return [cluster for cluster in kept if not awaits_hosts(cluster.kept_for)]

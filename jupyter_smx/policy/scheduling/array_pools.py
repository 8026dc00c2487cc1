"""The pools of an array: hosts of a task without a keep-alive stay for the next task, and go when none is left.

==========================================  ================================================================
at the end of a task                        its hosts
==========================================  ================================================================
the task asked for a keep-alive             are kept as after any job
other tasks of the array wait for hosts     are kept for them, for ``HAND_OVER`` seconds at most
they reached the maximum age of a pool      are released, as after any job: the next task has new ones
no task waits any more                      are released, and so are those that were kept for one
==========================================  ================================================================

The quota for warm instances does not count here: it is about hosts that wait for what may never come, and these have
a task at once. New hosts are launched as for any job: while there is room, and up to the array's ``max_concurrent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.model.records.job import Job

HAND_OVER = 45
"""Seconds; an agent waits a minute after a job without keep-alive, so it never leaves before its time is over here."""


def decide_after_task(job: Job, keep: KeepDecision, left: int, *, others_wait: bool) -> KeepDecision:
    """Decide at the end of a job whether its hosts wait for the next task of its array; ``keep`` is for any job.

    ``left`` is the number of seconds after which the hosts are too old to be kept.
    """
    if job.spec.array is None or job.spec.keep_alive > 0 or not others_wait or left < 1:
        return keep
    return KeepDecision(min(HAND_OVER, left), f"Kept for the next task of {job.spec.array.name}.")


def unneeded_pools(clusters: Iterable[Cluster], awaits_hosts: Callable[[str], bool]) -> list[Cluster]:
    """Find the idle pools that were kept for arrays none of whose tasks waits any more."""
    kept = [cluster for cluster in clusters if cluster.kept_for and cluster.state is ClusterState.AVAILABLE]
    return [cluster for cluster in kept if not awaits_hosts(cluster.kept_for)]

"""GPUs of this machine by number: which of them each host of a job gets."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.scheduling import capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.policy.limits import Limits

Gpus = dict[str, tuple[int, ...]]
"""Numbers of GPUs, from 0 on, by host; a host without any is not in it and sees whatever the machine shows it."""


def assign_gpus(
    groups: Iterable[InstanceGroup], clusters: Sequence[Cluster], limits: Limits, *, lasting: bool = False
) -> Gpus:
    """Give each host the lowest GPUs that no busy cluster holds.

    Hosts that together want more than the machine has (which a note of their start says) share those that there are.
    Those that have them for as long as they live (``lasting``) get the ones of idle hosts last, which want theirs back.
    """
    held = gpus_of_clusters(cluster for cluster in clusters if cluster.is_busy())
    wanted = gpus_of_clusters(cluster for cluster in clusters if lasting and cluster.is_live())
    every = sorted(range(limits.gpus), key=lambda number: number in wanted)
    turn = itertools.cycle([number for number in every if number not in held] or every)
    given = {host.name: _count(host.instance_type, limits) for host in named_hosts(tuple(groups))}
    return {host: tuple(sorted({next(turn) for _ in range(count)})) for host, count in given.items() if count}


def gpus_of_clusters(clusters: Iterable[Cluster]) -> set[int]:
    """Give the numbers of the GPUs that clusters were given."""
    return {number for cluster in clusters for row in cluster.gpus.values() for number in row}


def _count(instance_type: str, limits: Limits) -> int:
    return capacity.host_share(capacity.resolve_instance_type(instance_type, limits), limits).gpus

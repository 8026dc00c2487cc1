"""Capacity of this machine: what hosts need, what is in use, if the rest suffices, assigned GPUs.

An instance type larger than the machine gets the whole machine and a note about that; ``local`` is one CPU and its
share of the memory. Busy hosts hold CPUs, memory and GPUs; an idle warm host holds only its place. Hosts of an engine
that is not bounded by this machine have what their instance type says.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.spec.instance import InstanceType
from jupyter_smx.policy.hosts.names import named_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.policy.limits import Limits

Gpus = dict[str, tuple[int, ...]]
"""Numbers of GPUs, from 0 on, by host; a host without any is not in it and sees whatever the machine shows it."""


class Share(Struct, frozen=True, kw_only=True):
    """A part of the machine: hosts, CPUs, GiB of memory, GPUs."""

    hosts: int = 0
    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: int = 0

    def plus(self, other: Share) -> Share:
        """Add up two shares."""
        return Share(
            hosts=self.hosts + other.hosts,
            cpus=self.cpus + other.cpus,
            memory_gib=self.memory_gib + other.memory_gib,
            gpus=self.gpus + other.gpus,
        )

    def minus(self, other: Share) -> Share:
        """Take a share out of this one."""
        return Share(
            hosts=self.hosts - other.hosts,
            cpus=self.cpus - other.cpus,
            memory_gib=self.memory_gib - other.memory_gib,
            gpus=self.gpus - other.gpus,
        )


def resolve_instance_type(name: str, limits: Limits) -> InstanceType:
    """Return the row of an instance type; one that left the catalogue while its hosts live counts as the whole machine.

    An overestimate is safe: other jobs wait a little longer, and no resource is assigned twice.
    """
    whole = InstanceType(name=name, vcpus=limits.cpus, memory_gib=limits.memory_gib, gpus=limits.gpus)
    return limits.catalogue.get(name, whole)


def host_share(kind: InstanceType, limits: Limits) -> Share:
    """Return the share of one host of an instance type; of this machine never more than it has."""
    if not limits.bounded_by_machine:
        return Share(hosts=1, cpus=kind.vcpus, memory_gib=kind.memory_gib, gpus=kind.gpus)
    memory = kind.memory_gib or limits.memory_gib / max(1, limits.cpus)
    return Share(
        hosts=1,
        cpus=min(kind.vcpus, limits.cpus),
        memory_gib=min(memory, limits.memory_gib),
        gpus=min(kind.gpus, limits.gpus),
    )


def demand(groups: Iterable[InstanceGroup], limits: Limits) -> Share:
    """Add up the needs of the hosts of all groups; no job needs more than this machine has, except for hosts."""
    total = Share()
    for group in groups:
        one = host_share(resolve_instance_type(group.instance_type, limits), limits)
        for _ in range(group.instance_count):
            total = total.plus(one)
    if not limits.bounded_by_machine:
        return total
    return Share(
        hosts=total.hosts,
        cpus=min(total.cpus, limits.cpus),
        memory_gib=min(total.memory_gib, limits.memory_gib),
        gpus=min(total.gpus, limits.gpus),
    )


def used_share(clusters: Iterable[Cluster], limits: Limits) -> Share:
    """Add up what live clusters hold: each its hosts, and the busy ones their CPUs, memory and GPUs."""
    total = Share()
    for cluster in clusters:
        if not cluster.is_live():
            continue
        need = demand(cluster.key.instance_groups, limits)
        total = total.plus(need if cluster.is_busy() else Share(hosts=need.hosts))
    return total


def shortage(need: Share, used: Share, limits: Limits) -> str:
    """Return what is missing for ``need``, in words; empty if there is room."""
    rows = (
        ("CPU", "CPUs", need.cpus, used.cpus, float(limits.cpus)),
        ("GiB of memory", "GiB of memory", need.memory_gib, used.memory_gib, limits.memory_gib),
        ("GPU", "GPUs", float(need.gpus), float(used.gpus), float(limits.gpus)),
    )
    for one, many, wanted, busy, total in rows:
        if wanted and busy + wanted > total + 1e-9:
            return f"It needs {wanted:g} {one if wanted == 1 else many}, and {busy:g} of {total:g} are in use."
    return ""


def lacks_hosts(need: Share, used: Share, limits: Limits) -> bool:
    """Return True if a launch would exceed the maximum number of hosts of this machine."""
    return used.hosts + need.hosts > limits.max_hosts


def shortage_of_hosts(need: Share, used: Share, limits: Limits) -> str:
    """Return how many hosts are missing, in words; empty if there is room for all."""
    if not lacks_hosts(need, used, limits):
        return ""
    wanted = "1 host" if need.hosts == 1 else f"{need.hosts} hosts"
    return f"It needs {wanted}, and {used.hosts} of the {limits.max_hosts} of this machine are in use."


def notes(groups: Iterable[InstanceGroup], limits: Limits) -> tuple[str, ...]:
    """Return notes about resources of this machine that are smaller than those of the requested instance types."""
    said = []
    for group in groups:
        kind = resolve_instance_type(group.instance_type, limits)
        if kind.vcpus > limits.cpus:
            said.append(f"{kind.name} has {kind.vcpus} vCPUs, but this machine provides {limits.cpus}.")
        if kind.gpus > limits.gpus:
            count = f"{kind.gpus} GPU{'s' if kind.gpus > 1 else ''}"
            said.append(f"{kind.name} has {count}, but this machine has {limits.gpus}.")
    return tuple(dict.fromkeys(said))


def assign_gpus(
    groups: Iterable[InstanceGroup], clusters: Sequence[Cluster], limits: Limits, *, lasting: bool = False
) -> Gpus:
    """Return for each host the lowest GPUs that no busy cluster holds.

    Hosts that together need more than the machine has share its GPUs, with a note on their start. Hosts that keep their
    GPUs (``lasting``) get the GPUs of idle hosts last.
    """
    held = gpus_of_clusters(cluster for cluster in clusters if cluster.is_busy())
    wanted = gpus_of_clusters(cluster for cluster in clusters if lasting and cluster.is_live())
    every = sorted(range(limits.gpus), key=lambda number: number in wanted)
    turn = itertools.cycle([number for number in every if number not in held] or every)
    given = {host.name: _gpu_count(host.instance_type, limits) for host in named_hosts(tuple(groups))}
    return {host: tuple(sorted({next(turn) for _ in range(count)})) for host, count in given.items() if count}


def gpus_of_clusters(clusters: Iterable[Cluster]) -> set[int]:
    """Return the numbers of the GPUs that clusters were given."""
    return {number for cluster in clusters for row in cluster.gpus.values() for number in row}


def _gpu_count(instance_type: str, limits: Limits) -> int:
    return host_share(resolve_instance_type(instance_type, limits), limits).gpus

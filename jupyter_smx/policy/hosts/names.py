"""Name a job's hosts ``algo-1 … algo-N`` over all groups, and assign helpers and shards of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.spec.instance import groups_by_host

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from jupyter_smx.model.records.job import HostEnd
    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.model.spec.instance import InstanceGroup

_OWN_CAUSES = ("exit", "signal", "memory")
"""Causes of an end without a stop request."""


class NamedHost(Struct, frozen=True, kw_only=True):
    """One host: its name in the job, its group and its instance type."""

    name: str
    group: str
    instance_type: str


def named_hosts(groups: Iterable[InstanceGroup]) -> tuple[NamedHost, ...]:
    """Name the hosts of all groups."""
    return tuple(
        NamedHost(name=name, group=group.name, instance_type=group.instance_type)
        for name, group in groups_by_host(groups).items()
    )


def leaders_of(groups: Sequence[InstanceGroup]) -> dict[str, tuple[str, ...]]:
    """Name for each host of a helper group the hosts of the group that it helps."""
    until = {group.name: group.until for group in groups if group.until}
    if not until:
        return {}
    hosts = named_hosts(groups)
    return {
        host.name: tuple(other.name for other in hosts if other.group == until[host.group])
        for host in hosts
        if host.group in until
    }


def drainable_hosts(groups: Sequence[InstanceGroup], exited: Collection[str]) -> tuple[str, ...]:
    """Name the hosts whose part is over because all hosts that they helped have ended, and which have not."""
    return tuple(
        host for host, leaders in leaders_of(groups).items() if host not in exited and set(leaders) <= set(exited)
    )


def mark_drained_helpers(groups: Sequence[InstanceGroup], ends: Sequence[HostEnd]) -> tuple[HostEnd, ...]:
    """Mark a helper's own end as ``drained`` if the last of its leaders has ended before.

    A connection broken by the leader's end often ends the helper before it gets the request to stop.
    """
    leaders = leaders_of(groups)
    if not leaders:
        return tuple(ends)
    when = {end.host: end.exited_at for end in ends}
    return tuple(
        replace(end, cause="drained")
        if _is_after_leaders(end, [when.get(one) for one in leaders.get(end.host, ())])
        else end
        for end in ends
    )


def _is_after_leaders(end: HostEnd, leaders: Sequence[float | None]) -> bool:
    if not leaders or end.is_successful() or end.cause not in _OWN_CAUSES or end.exited_at is None:
        return False
    return all(moment is not None and moment <= end.exited_at for moment in leaders)


def helper_notes(groups: Iterable[InstanceGroup]) -> tuple[str, ...]:
    """Return notes about groups that only help another one, and how they end."""
    return tuple(
        f"Group {group.name} helps {group.until}: it is stopped when the hosts of {group.until} have ended."
        for group in groups
        if group.until
    )


class Shard(Struct, frozen=True):
    """Every ``count``-th file, from number ``index`` on, in the order of names; ``0, 1`` is all of them."""

    index: int = 0
    count: int = 1


def has_channel(host: NamedHost, channel: Channel) -> bool:
    """Return True if a host gets a part of a channel."""
    return not channel.groups or host.group in channel.groups


def shard_of(host: NamedHost, channel: Channel, hosts: Sequence[NamedHost]) -> Shard:
    """Return the part of a channel that belongs to a host which has it.

    SageMaker assigns each of n hosts about one n-th of the objects by count, unspecified which. Here they are dealt out
    in turns, so that equal names always go to the same host.
    """
    if channel.distribution != "ShardedByS3Key":
        return Shard()
    among = [each.name for each in hosts if has_channel(each, channel)]
    return Shard(among.index(host.name), len(among))

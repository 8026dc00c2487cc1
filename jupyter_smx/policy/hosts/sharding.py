"""Which part of a sharded channel a host gets: its turn among the hosts that have the channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.spec.channel import Channel
    from jupyter_smx.policy.hosts.names import NamedHost


class Shard(Struct, frozen=True):
    """Every ``count``-th file, from number ``index`` on, in the order of names; ``0, 1`` is all of them."""

    index: int = 0
    count: int = 1


def has_channel(host: NamedHost, channel: Channel) -> bool:
    """Say whether a host gets anything of a channel."""
    return not channel.groups or host.group in channel.groups


def shard_of(host: NamedHost, channel: Channel, hosts: Sequence[NamedHost]) -> Shard:
    """Give the part of a channel that belongs to a host which has it.

    SageMaker promises each of n hosts about one n-th of the objects by count, and not which: here they are dealt out in
    turns, so that equal names always go to the same host.
    """
    if channel.distribution != "ShardedByS3Key":
        return Shard()
    among = [each.name for each in hosts if has_channel(each, channel)]
    return Shard(among.index(host.name), len(among))

"""Names of hosts, algo-1 to algo-N without a gap, and the shards of a channel: nothing twice, nothing left out."""

from __future__ import annotations

from draws import group_tuples
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.policy.hosts.names import Shard, has_channel, named_hosts, shard_of


@given(group_tuples)
def test_hosts_are_numbered_from_one_without_a_gap_over_all_groups(groups: tuple[InstanceGroup, ...]) -> None:
    hosts = named_hosts(groups)
    assert [host.name for host in hosts] == [f"algo-{number}" for number in range(1, len(hosts) + 1)]
    assert [host.group for host in hosts] == [group.name for group in groups for _ in range(group.instance_count)]
    kinds = {group.name: group.instance_type for group in groups}
    assert all(host.instance_type == kinds[host.group] for host in hosts)


groups = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda counts: [InstanceGroup(name=f"g{number}", instance_count=count) for number, count in enumerate(counts)]
)


@given(groups=groups, files=st.integers(0, 40), data=st.data())
def test_every_file_of_a_sharded_channel_goes_to_one_host_of_its_groups(
    groups: list[InstanceGroup], files: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from([group.name for group in groups]), unique=True))
    channel = Channel(name="train", source="/data", distribution="ShardedByS3Key", groups=tuple(chosen))
    hosts = named_hosts(groups)
    having = [host for host in hosts if has_channel(host, channel)]
    shards = [shard_of(host, channel, hosts) for host in having]
    parts = [list(range(files))[shard.index :: shard.count] for shard in shards]
    assert sorted(number for part in parts for number in part) == list(range(files))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_replicated_channel_is_whole_on_every_host() -> None:
    hosts = named_hosts([InstanceGroup(instance_count=3)])
    assert {shard_of(host, Channel(name="train", source="/data"), hosts) for host in hosts} == {Shard(0, 1)}


def test_only_hosts_of_the_groups_of_a_channel_have_it() -> None:
    hosts = named_hosts([InstanceGroup(name="a"), InstanceGroup(name="b", instance_count=2)])
    channel = Channel(name="train", source="/data", distribution="ShardedByS3Key", groups=("b",))
    assert [has_channel(host, channel) for host in hosts] == [False, True, True]
    assert [shard_of(host, channel, hosts) for host in hosts[1:]] == [Shard(0, 2), Shard(1, 2)]

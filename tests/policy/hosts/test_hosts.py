"""Names of hosts: algo-1 to algo-N without a gap, in the order of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draws import group_tuples
from hypothesis import given

from jupyter_smx.policy.hosts.names import named_hosts

if TYPE_CHECKING:
    from jupyter_smx.model.spec.instance import InstanceGroup


@given(group_tuples)
def test_hosts_are_numbered_from_one_without_a_gap_over_all_groups(groups: tuple[InstanceGroup, ...]) -> None:
    hosts = named_hosts(groups)
    assert [host.name for host in hosts] == [f"algo-{number}" for number in range(1, len(hosts) + 1)]
    assert [host.group for host in hosts] == [group.name for group in groups for _ in range(group.instance_count)]
    kinds = {group.name: group.instance_type for group in groups}
    assert all(host.instance_type == kinds[host.group] for host in hosts)

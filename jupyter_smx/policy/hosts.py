"""Names of a job's hosts: ``algo-1 … algo-N`` over all groups, in the groups' order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.instance import InstanceGroup


class NamedHost(Struct, frozen=True, kw_only=True):
    """One host: its name in the job, its group and its instance type."""

    name: str
    group: str
    instance_type: str


def named_hosts(groups: Iterable[InstanceGroup]) -> tuple[NamedHost, ...]:
    """Name the hosts of all groups."""
    owners = [group for group in groups for _ in range(group.instance_count)]
    return tuple(
        NamedHost(name=f"algo-{number}", group=group.name, instance_type=group.instance_type)
        for number, group in enumerate(owners, 1)
    )

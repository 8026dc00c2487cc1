"""Requests and rows that tests of pure functions share."""

from __future__ import annotations

from typing import Any

from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.engines.slurm.parsers import QueueRow
from jupyter_smx.engines.slurm.record import AllocationRecord
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup

NAME = "smx-0a1b2c3d-f00d"


def host(name: str = "algo-1", group: str = HOMOGENEOUS, **changes: Any) -> HostSpec:
    """Give a host with two CPUs and 4 GiB."""
    usual = {"instance_type": "small", "vcpus": 2, "memory": 4 << 30}
    return HostSpec(host=name, group=group, **(usual | changes))


def request(*hosts: HostSpec, **changes: Any) -> ClusterRequest:
    """Give a request for these hosts, an hour for the job and ten minutes of keep-alive."""
    found = hosts or (host(),)
    names = dict.fromkeys(each.group for each in found)
    groups = tuple(InstanceGroup(name=name, instance_count=sum(each.group == name for each in found)) for name in names)
    usual: dict[str, Any] = {"max_run": 3_600, "keep_alive": 600, "python": ""}
    return ClusterRequest(cluster="f00d", hosts=found, instance_groups=groups, **(usual | changes))


def record(**changes: Any) -> AllocationRecord:
    """Give the record of a cluster with one host whose job is 12."""
    usual: dict[str, Any] = {"name": NAME, "components": {"algo-1": 0}, "submitted_at": 1_000.0, "job": "12"}
    return AllocationRecord(**(usual | changes))


def row(state: str = "RUNNING", **changes: Any) -> QueueRow:
    """Give a row of job 12."""
    usual: dict[str, Any] = {
        "job": "12",
        "name": NAME,
        "nodes": ("n1",) if state == "RUNNING" else (),
        "partition": "main",
    }
    return QueueRow(state=state, **(usual | changes))

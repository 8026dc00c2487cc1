"""Control groups of the local engine's hosts: their paths, creation and removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.agent.system.resources import cgroup_limits
from jupyter_smx.engines.machine.host_folder import RELEASED_MARKER, HostFolder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostSpec


class LocalLimits:
    """Limits for one data folder. The parent groups are determined once; ``off`` is the reason if limits are off."""

    def __init__(self, clusters: Path, off: str = "") -> None:
        self._clusters = clusters
        self._data_dir = str(clusters.parent)
        self._disabled_reason = off
        self._parents: cgroup_limits.ParentGroups | None = None

    def parents(self) -> cgroup_limits.ParentGroups:
        """Return the parent groups, and the reason if there are none."""
        if self._parents is None:
            self._parents = (
                cgroup_limits.ParentGroups(reason=self._disabled_reason)
                if self._disabled_reason
                else cgroup_limits.find_parents()
            )
        return self._parents

    def plan(self, request: ClusterRequest, plan: HostSpec) -> dict[str, object]:
        """Return a host's limits for ``host.json`` if no group fails."""
        return cgroup_limits.plan_limits(self.parents(), self._name(request, plan), _host_limits(plan))

    def make(self, request: ClusterRequest, plan: HostSpec) -> dict[str, object]:
        """Create the groups of a host; return its limits for ``host.json``. Blocks for a moment."""
        name, wish = self._name(request, plan), _host_limits(plan)
        return cgroup_limits.plan_limits(cgroup_limits.make_groups(self.parents(), name, wish), name, wish)

    def find_members(self, cluster: str, hosts: Iterable[str]) -> set[int]:
        """List the processes in the groups of hosts: their jobs, and what these started. Blocks."""
        return cgroup_limits.find_members(self._groups(cluster, hosts))

    def remove(self, cluster: str, hosts: Iterable[str]) -> str:
        """Remove the groups of hosts that have ended, whose folders may be gone; return which groups remain."""
        return cgroup_limits.remove_groups(self._groups(cluster, hosts))

    def _groups(self, cluster: str, hosts: Iterable[str]) -> list[str]:
        names = [cgroup_limits.group_name(self._data_dir, cluster, host) for host in hosts]
        return [str(parent / name) for parent in self.parents().folders.values() for name in names]

    def sweep(self) -> None:
        """Remove empty groups of hosts that are released, have no record, or whose agent has ended."""
        cgroup_limits.sweep(self.parents(), self._data_dir, self._live_groups)

    def _live_groups(self) -> list[str]:
        folders = [path for path in self._clusters.glob("*/*") if _may_live(path)]
        return [cgroup_limits.group_name(self._data_dir, path.parent.name, path.name) for path in folders]

    def _name(self, request: ClusterRequest, plan: HostSpec) -> str:
        return cgroup_limits.group_name(self._data_dir, request.cluster, plan.host)


def _may_live(folder: Path) -> bool:
    """Return True if a host may still start a job; on a full disk a release is not recorded, but the agent ends."""
    if (folder.parent / RELEASED_MARKER).exists():
        return False
    try:
        agent = HostFolder(folder).read_agent()
        return agent is None or agent.is_alive()
    except (OSError, msgspec.MsgspecError):
        return True


def _host_limits(plan: HostSpec) -> cgroup_limits.CgroupLimits:
    return cgroup_limits.CgroupLimits(cpus=plan.vcpus, memory=plan.memory)

"""The limits of the local engine's hosts: where their control groups are, and when they are made and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.engines.machine import cgroups
from jupyter_smx.engines.machine.host_folder import RELEASED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostPlan


class LocalLimits:
    """One data folder. Where groups can be made is found out once; ``off`` says why none shall be."""

    def __init__(self, clusters: Path, off: str = "") -> None:
        self._clusters = clusters
        self._data_dir = str(clusters.parent)
        self._off = off
        self._found: cgroups.Parents | None = None

    def parents(self) -> cgroups.Parents:
        """Give where groups can be made here."""
        if self._found is None:
            self._found = cgroups.Parents(reason=self._off) if self._off else cgroups.find()
        return self._found

    def planned(self, request: ClusterRequest, plan: HostPlan) -> dict[str, object]:
        """Give what ``host.json`` says of a host's limits when nothing goes wrong."""
        return cgroups.planned(self.parents(), self._name(request, plan), _wish(plan))

    def make(self, request: ClusterRequest, plan: HostPlan) -> dict[str, object]:
        """Make the groups of a host; gives what ``host.json`` says of them. Blocks for a moment."""
        name, wish = self._name(request, plan), _wish(plan)
        return cgroups.planned(cgroups.make(self.parents(), name, wish), name, wish)

    def remove(self, cluster: str, hosts: Iterable[str]) -> str:
        """Remove the groups of hosts that have ended, whose folders may be gone; says which could not be."""
        names = [cgroups.name_of(self._data_dir, cluster, host) for host in hosts]
        return cgroups.remove(str(parent / name) for parent in self.parents().folders.values() for name in names)

    def sweep(self) -> None:
        """Remove groups of hosts that are released, or that nobody knows any more."""
        cgroups.sweep(self.parents(), self._data_dir, self._living)

    def _living(self) -> list[str]:
        folders = [path for path in self._clusters.glob("*/*") if not (path.parent / RELEASED).exists()]
        return [cgroups.name_of(self._data_dir, path.parent.name, path.name) for path in folders]

    def _name(self, request: ClusterRequest, plan: HostPlan) -> str:
        return cgroups.name_of(self._data_dir, request.cluster, plan.host)


def _wish(plan: HostPlan) -> cgroups.Wish:
    return cgroups.Wish(cpus=plan.vcpus, memory=plan.memory)

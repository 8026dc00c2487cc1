"""The record of a cluster's allocation on this machine; separate, because decisions and actions both need it."""

from __future__ import annotations

from msgspec import Struct

from jupyter_smx.model.records.cluster import HostHandle


class AllocationRecord(Struct, frozen=True, kw_only=True):
    """What was, or will be, submitted for a cluster.

    ``components`` has the number of the component of each host, in the job's order; ``nodes`` its node, once there is
    one. ``submitted_at`` is when the last submission began, ``missed_since`` since when Slurm answers and lists no job
    of the name; seconds since the epoch. ``hosts`` are those that listen. ``ends_at`` is the end of the allocation,
    and ``notice`` how many seconds before it jobs get their notice. ``is_cancelled`` is set before this
    controller cancels the job.
    """

    name: str
    components: dict[str, int]
    submitted_at: float = 0.0
    missed_since: float = 0.0
    job: str = ""
    nodes: dict[str, str] = {}
    hosts: tuple[HostHandle, ...] = ()
    ends_at: float | None = None
    notice: float = 0.0
    is_cancelled: bool = False

    def is_heterogeneous(self) -> bool:
        """Return True if the job has several components."""
        return len(set(self.components.values())) > 1

    def parent_of(self, host: str) -> str:
        """Return the name of the step parent of a host, as ``parent_name`` of the module on the nodes builds it."""
        component = self.component_of(host)
        return self.job if component is None else f"{self.job}+{component}"

    def component_of(self, host: str) -> int | None:
        """Return the number of a host's component; None in a job without components."""
        return self.components[host] if self.is_heterogeneous() else None

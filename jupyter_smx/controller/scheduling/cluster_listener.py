"""Who is told what happened to clusters: what an engine and its hosts do matters to the jobs on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.model.errors import SmxError, UnavailableError
    from jupyter_smx.model.records.cluster import Cluster


class ClusterObserver(Protocol):
    """Who is told what happened to a cluster."""

    def on_cluster_ready(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Learn that streams to all hosts are open; ``greetings`` say what the agents know."""

    def on_cluster_refused(self, cluster: Cluster, error: SmxError, *, again: bool = True) -> None:
        """Learn that the engine could not bring the hosts up, and whether others may be asked for; it is ended."""

    def on_cluster_unreachable(self, cluster: Cluster, error: UnavailableError) -> None:
        """Learn why the hosts cannot be reached now; they may live and work."""

    async def on_cluster_lost(self, cluster: Cluster) -> None:
        """Learn that the engine knows the hosts no more while a job was on them."""

    def schedule_waiting_jobs(self) -> None:
        """Learn that hosts were freed or became idle."""

    def on_fenced(self) -> None:
        """Learn that another controller owns the records; this one ends."""

"""Record hosts that do not answer on open streams, and a stopped agent as the reason.

A stream is closed only after three silent periods, and a stopped agent still accepts the next one. Without this the
user would see for most of a minute that the code runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.policy.lifecycle import unreachable_hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.job_events import JobEventHandler
    from jupyter_smx.engines.base import Engine, StoppedAgent
    from jupyter_smx.model.errors import UnavailableError
    from jupyter_smx.model.records.cluster import Cluster


class HostStalls:
    """Clusters with recorded silence. ``clock`` returns seconds since the epoch."""

    def __init__(
        self,
        agents: Agents,
        engine_of: Callable[[str], Engine],
        events: JobEventHandler,
        clock: Callable[[], float],
    ) -> None:
        self._agents = agents
        self._engine_of = engine_of
        self._events = events
        self._clock = clock
        self._noted: dict[str, StoppedAgent | None] = {}
        """Clusters whose silence is on record, with the reason if it was known."""

    def check(self, cluster: Cluster) -> None:
        """Record on a pool and its job that a host is silent, and remove that when it answers.

        Recorded once, and again when the engine has found the reason, which some engines look for only now and then.
        """
        silence = self._agents.longest_stall(cluster.id)
        if silence is None:
            # The reconnection of a closed stream records its own result.
            if cluster.id in self._noted and self._agents.is_open(cluster.id):
                self._events.on_cluster_reachable(cluster)
            self._noted.pop(cluster.id, None)
            return
        host, seconds = silence
        stopped = self._stopped_agent(cluster, host)
        if cluster.id not in self._noted or stopped not in (None, self._noted[cluster.id]):
            error = _silent_error(host, seconds, stopped)
            self._events.on_cluster_unreachable(cluster, error, self._clock() - seconds)
            self._noted[cluster.id] = stopped  # only what is on disk: a full one is tried again

    def find_stopped(self, cluster: Cluster) -> UnavailableError | None:
        """Return the error of a cluster with a stopped agent, None if none is known to be stopped."""
        for host in cluster.handle.hosts if cluster.handle else ():
            if stopped := self._stopped_agent(cluster, host.host):
                return _silent_error(host.host, 0.0, stopped)
        return None

    def _stopped_agent(self, cluster: Cluster, host: str) -> StoppedAgent | None:
        handle = cluster.handle
        return None if handle is None else self._engine_of(cluster.key.engine).stopped_agent(handle, host)


def _silent_error(host: str, seconds: float, stopped: StoppedAgent | None) -> UnavailableError:
    if stopped is None:
        return unreachable_hosts.silent_error(host, seconds)
    return unreachable_hosts.silent_error(host, seconds, stopped.reason, stopped.cure)

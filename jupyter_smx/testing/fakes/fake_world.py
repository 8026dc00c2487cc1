"""The fake world of tests: hosts that live or fail, their jobs, and counts that tested code cannot change."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.testing.fakes.fake_builder import FakeBuilder
from jupyter_smx.testing.fakes.fake_host import FakeHost, FakeRun, FakeScript

if TYPE_CHECKING:
    from jupyter_smx.engines.base import ClusterRequest

EPOCH = 1_800_000_000.0
"""Seconds since the epoch at which the simulated time begins."""


class FakeWorld:
    """Hosts, and the side doors through which a test sees what really happened.

    ``starts`` counts how often the user's code of a job began on a host; ``began`` has the clusters on which it did;
    ``runs`` counts starts on each host of each cluster; ``overlaps`` names jobs that ran on two clusters at once;
    ``unready`` names interpreters of environments that were launched before they were there;
    ``most_hosts`` and ``most_running`` are the highest numbers ever.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.builder = FakeBuilder()
        self.unready_pythons: list[str] = []
        self.hosts: dict[tuple[str, str], FakeHost] = {}
        self.launches: Counter[tuple[str, str]] = Counter()
        self.submissions: dict[str, None] = {}
        self.released_clusters: set[str] = set()
        self.start_counts: Counter[tuple[str, str]] = Counter()
        self.run_counts: Counter[tuple[str, str, str]] = Counter()
        self.job_clusters: dict[str, set[str]] = {}
        self.overlaps: list[str] = []
        self.scripts: dict[str, FakeScript] = {}
        self.most_hosts = 0
        self.most_running = 0
        self._clock_offset = 0.0
        self.clock_ahead = 0.0
        """Seconds by which the clock of the hosts' machine is ahead of the controller's."""
        self.boot_id = "first boot"
        self.isolation: dict[str, Any] = {"mode": "namespace", "reason": ""}
        """Isolation in the ``hello`` answers of all hosts."""
        self.random_draw = 0.5
        """Result of every random draw of a controller."""
        self._connections: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def clock(self) -> float:
        """Return seconds since the epoch, by a clock that :meth:`set_clock` sets."""
        return EPOCH + self._clock_offset + self.monotonic()

    def remote_clock(self) -> float:
        """Return seconds since the epoch by the clock of the hosts' machine."""
        return self.clock() + self.clock_ahead

    def monotonic(self) -> float:
        """Return the seconds of a clock that cannot be set."""
        return asyncio.get_event_loop().time()

    def set_clock(self, seconds: float) -> None:
        """Set the clock forward, or back."""
        self._clock_offset += seconds

    def spool(self, cluster: str, host: str) -> Path:
        """Return the spool folder of a host; it outlives the host."""
        return self.folder / "clusters" / cluster / host / host_layout.SPOOL

    def script(self, job: str) -> FakeScript:
        """Return the actions of a job."""
        return self.scripts.setdefault(job, FakeScript())

    # Hosts

    def submit(self, cluster: str) -> None:
        """Take a request of a cluster, once."""
        self.submissions[cluster] = None

    def arrive(self, request: ClusterRequest, seconds: float) -> None:
        """Take a request and launch it after some seconds, unless its cluster was released meanwhile."""
        asyncio.get_running_loop().call_later(seconds, self._arrive, request)

    def _arrive(self, request: ClusterRequest) -> None:
        if request.cluster not in self.released_clusters:
            self.submit(request.cluster)
            self.launch(request)

    def launch(self, request: ClusterRequest) -> None:
        """Launch the hosts of a request that were never launched before."""
        if "/environments/" in request.python and not Path(request.python).exists():
            self.unready_pythons.append(request.python)
        for plan in request.hosts:
            key = (request.cluster, plan.host)
            if key not in self.hosts:
                self.launches[key] += 1
                self.hosts[key] = FakeHost(
                    self, request.cluster, plan.host, request.idle_limit, request.keep_uncollected
                )
        self.most_hosts = max(self.most_hosts, len(self.live_hosts()))

    def live_hosts(self) -> list[FakeHost]:
        """Return the hosts that cost money now."""
        return [host for host in self.hosts.values() if host.alive]

    def cluster_hosts(self, cluster: str) -> list[FakeHost]:
        """Return every host a cluster ever had."""
        return [host for (owner, _), host in self.hosts.items() if owner == cluster]

    def release(self, cluster: str) -> None:
        """End a cluster for good."""
        self.released_clusters.add(cluster)
        for host in self.cluster_hosts(cluster):
            host.crash()

    # Jobs

    def count_start(self, job: str, host: FakeHost) -> None:
        """Count; a test looks at it afterwards."""
        self.start_counts[job, host.name] += 1
        self.run_counts[job, host.cluster, host.name] += 1
        if any(run.job == job and other.cluster != host.cluster for other, run in self.running_jobs()):
            self.overlaps.append(job)
        self.job_clusters.setdefault(job, set()).add(host.cluster)
        self.most_running = max(self.most_running, len(self.running_jobs()))

    def running_jobs(self) -> list[tuple[FakeHost, FakeRun]]:
        """Return every host whose job's code runs now."""
        found = [(host, host.running()) for host in self.live_hosts()]
        return [(host, run) for host, run in found if run is not None and run.phase == "running"]

    def end_job(self, job: str, **end: Any) -> None:
        """End a job on every host that runs it; ``exit_code`` is 0 unless it is passed."""
        for host, run in self.running_jobs():
            if run.job == job:
                host.end_run(run, **({"exit_code": 0} | end))

    # Streams

    async def connect(
        self, host: FakeHost, *, broken: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect the controller to a host; a broken cable ends at once."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        if broken:
            writer.close()
        task = asyncio.get_running_loop().create_task(host.serve(reader, writer), name=f"fake agent {host.name}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        reader, writer = await asyncio.open_connection(sock=ours)
        self._connections.add(writer)
        return reader, writer

    def close_connections(self) -> None:
        """End every stream from the controller's side, as the death of the controller does."""
        for writer in self._connections:
            writer.transport.abort()
        self._connections.clear()

    async def close(self) -> None:
        """End everything."""
        for host in self.live_hosts():
            host.crash()
        self.close_connections()
        await asyncio.gather(*self._serving, return_exceptions=True)

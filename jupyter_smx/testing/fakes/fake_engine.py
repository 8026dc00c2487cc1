"""A fake engine over a fake world, and engines with faults, each named by its failure."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from jupyter_smx.engines.base import Capabilities, Engine, Observation, stopped_process
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle, QueueStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, StoppedAgent
    from jupyter_smx.testing.fakes.fake_world import FakeWorld

STOPPED_PID = 4711
"""Process of the agent of a fake host that is stopped."""
NEVER = 1e9
QUEUE_INTERVAL = 2.0
"""Seconds between two looks at the queue of the scheduler."""


class Fault:
    """A fault of an engine; this base class has no effect."""

    slots: int | None = None
    """Maximum number of the engine's hosts; None without a limit."""

    async def before_launch(self) -> None:
        """Happen before anything was launched."""

    def on_submit(self, world: FakeWorld, request: ClusterRequest) -> None:
        """Happen when a request reaches the scheduler of the engine."""

    def queue_status(self, cluster: str) -> QueueStatus | None:
        """Return the queue status of a request before its launch; None if it does not wait."""
        del cluster
        return None

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Happen after the launch and before the hosts can be reached."""

    def on_observe(self, found: Observation) -> Observation:
        """Change the observation of a cluster."""
        return found

    def on_call(self) -> None:
        """Happen at every question."""

    def on_connect(self, host: str) -> None:
        """Run at each connection to a host."""

    def on_read_spool(self) -> None:
        """Run when the spool of a host is read."""


class PausedHosts(Fault):
    """Hosts that run but refuse a number of connections, and an engine that reports why."""

    def __init__(self, times: float = NEVER) -> None:
        self.times = times

    def on_connect(self, host: str) -> None:
        """Raise the fault's error."""
        if self.times > 0:
            self.times -= 1
            raise UnavailableError(f"Host {host} is paused.", cure="Let it go on.", transient=True)


class WaitsAtEngine(Fault):
    """A scheduler that lets every request wait in its queue until this fault ends; ``status`` may change meanwhile."""

    def __init__(self, status: QueueStatus | None = None) -> None:
        self.status = status or QueueStatus("Resources", position=3)

    def queue_status(self, cluster: str) -> QueueStatus | None:
        """Return the status of a waiting request."""
        del cluster
        return self.status


class AnswerUnknown(Fault):
    """Requests that get no answer, a number of times.

    ``seconds`` later each is launched all the same; None if none of them ever reaches the scheduler.
    """

    def __init__(self, times: float = 1, *, seconds: float | None = 0.0) -> None:
        self.times = times
        self.seconds = seconds

    def on_submit(self, world: FakeWorld, request: ClusterRequest) -> None:
        """Lose the answer."""
        if self.times <= 0:
            return
        self.times -= 1
        if self.seconds is not None:
            world.arrive(request, self.seconds)
        raise UnavailableError("The scheduler did not answer in time.", transient=True)


class Full(Fault):
    """Hosts of others take the room: the engine refuses requests that are too large, or returns the slots left."""

    def __init__(self, hosts: int = 0, *, is_known: bool = False) -> None:
        self.hosts = hosts
        self.slots = hosts if is_known else None

    def on_submit(self, world: FakeWorld, request: ClusterRequest) -> None:
        """Refuse what does not fit."""
        others = [host for host in world.live_hosts() if host.cluster != request.cluster]
        if len(others) + len(request.hosts) > self.hosts:
            raise RefusedError(f"All machines are busy; {self.hosts} were free.", transient=True)


class NeverStarts(Fault):
    """Hosts are launched and never listen."""

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Wait without end."""
        del world, cluster
        await asyncio.sleep(NEVER)


class CrashesDuringStart(Fault):
    """The first host of a cluster dies before it listens."""

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Kill it."""
        world.cluster_hosts(cluster)[0].crash()


class RefusesTransiently(Fault):
    """Refuses with a transient error before a launch, a number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def before_launch(self) -> None:
        """Refuse."""
        if self.times > 0:
            self.times -= 1
            raise RefusedError("There is no capacity now.", transient=True)


class Refuses(Fault):
    """Refuses before anything is launched."""

    async def before_launch(self) -> None:
        """Refuse."""
        raise RefusedError("This role may not do that.")


class ReportsGone(Fault):
    """Reports live clusters as gone."""

    def on_observe(self, found: Observation) -> Observation:
        """Lie."""
        del found
        return Observation.GONE


class Outage(Fault):
    """Answers nothing; each observation is ``UNKNOWN``."""

    def on_call(self) -> None:
        """Fail."""
        raise UnavailableError("The engine cannot be reached.", transient=True)

    def on_observe(self, found: Observation) -> Observation:
        """Return UNKNOWN."""
        del found
        return Observation.UNKNOWN


class SpoolUnreadable(Fault):
    """Reads nothing that a host kept, and works otherwise."""

    def on_read_spool(self) -> None:
        """Fail."""
        raise UnavailableError("The machine of the host cannot be reached.", transient=True)


class DropsStreams(Fault):
    """Takes every connection and closes it at once."""


class FakeEngine(Engine):
    """The methods of the port over a fake world; ``faults`` may change at any time."""

    name: ClassVar[str] = "fake"
    capabilities: Capabilities = Capabilities(
        shared_folder=True, bounded_by_machine=True, environments=True, same_paths=True
    )

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__()
        self.world = world
        self.faults: list[Fault] = []
        self.launch_seconds = launch_seconds
        self.has_spool = has_remains
        self.sees_stopped = True
        """True if its last look at the machine showed which agents are stopped."""
        self.reads_spool = False
        """True if it reads spools that the controller cannot see, as an engine of other machines does."""

    def _on_call(self) -> None:
        for trouble in self.faults:
            trouble.on_call()

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the hosts' names."""
        return {"engine": self.name, "hosts": [host.host for host in request.hosts]}

    def slots(self) -> int | None:
        """Return the slots of the first fault with a limit."""
        return next((trouble.slots for trouble in self.faults if trouble.slots is not None), None)

    def _queue_status(self, cluster: str) -> QueueStatus | None:
        told = (trouble.queue_status(cluster) for trouble in self.faults)
        return next((status for status in told if status is not None), None)

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Launch the hosts once; yields after each host, the complete handle last."""
        self._on_call()
        if request.cluster in self.world.released_clusters:
            raise RefusedError(f"cluster: {request.cluster} was released.")
        for trouble in [*self.faults]:
            await trouble.before_launch()
        for trouble in [*self.faults]:
            trouble.on_submit(self.world, request)
        self.world.submit(request.cluster)
        has_waited = False
        while (status := self._queue_status(request.cluster)) is not None:
            yield status
            has_waited = True
            await asyncio.sleep(QUEUE_INTERVAL)
        self.world.launch(request)
        if has_waited:
            yield self._handle(request.cluster, 0)
        # A launched host costs before it has a handle: a caller that gives up now has none.
        await asyncio.sleep(self.launch_seconds / 2)
        for trouble in [*self.faults]:
            await trouble.while_starting(self.world, request.cluster)
        yield self._handle(request.cluster, 1)
        await asyncio.sleep(self.launch_seconds / 2)
        if not all(host.alive for host in self.world.cluster_hosts(request.cluster)):
            self.world.release(request.cluster)
            raise UnavailableError("A host died while it started.", transient=True)
        yield self._handle(request.cluster, len(request.hosts))

    def _handle(self, cluster: str, count: int) -> Handle:
        hosts = tuple(HostHandle(host=host.name, data={}) for host in self.world.cluster_hosts(cluster)[:count])
        return Handle(engine=self.name, cluster=cluster, hosts=hosts)

    async def find(self, cluster: str) -> Handle | None:
        """Find what was asked for a cluster that was not released; without hosts while it waits."""
        self._on_call()
        is_known = cluster in self.world.submissions and cluster not in self.world.released_clusters
        return self._handle(cluster, len(self.world.cluster_hosts(cluster))) if is_known else None

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Return which clusters live."""
        return [self._observe(handle.cluster) for handle in handles]

    def _observe(self, cluster: str) -> Observation:
        hosts = self.world.cluster_hosts(cluster)
        alive = bool(hosts) and all(host.alive for host in hosts)
        found = Observation.RUNNING if alive else Observation.GONE
        for trouble in self.faults:
            found = trouble.on_observe(found)
        return found

    async def release(self, handle: Handle) -> None:
        """End the hosts."""
        self._on_call()
        self.world.release(handle.cluster)

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Return a process for the agent of a host that is stopped, once the engine can see that."""
        found = self.world.hosts.get((handle.cluster, host))
        is_known = found is not None and not found.thawed.is_set() and self.sees_stopped
        return stopped_process(STOPPED_PID) if is_known else None

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host's agent over a socket pair."""
        self._on_call()
        found = self.world.hosts.get((handle.cluster, host))
        if found is None or not found.alive:
            raise UnavailableError(f"Nobody listens on {host}.", transient=True)
        for trouble in self.faults:
            trouble.on_connect(host)
        broken = any(isinstance(trouble, DropsStreams) for trouble in self.faults)
        return await self.world.connect(found, broken=broken)

    def spool_path(self, cluster: str, host: str) -> Path | None:
        """Return the spool folder, if this engine shares one."""
        return self.world.spool(cluster, host) if self.has_spool else None

    async def read_spool(
        self, cluster: str, host: str, job: str, name: str, offset: int, limit: int
    ) -> tuple[bytes, int] | None:
        """Read a file of a host's spool that is not shared, unless a fault refuses."""
        if self.has_spool or not self.reads_spool:
            return await super().read_spool(cluster, host, job, name, offset, limit)
        self._on_call()
        for trouble in self.faults:
            trouble.on_read_spool()
        try:
            content = (self.world.spool(cluster, host) / job / name).read_bytes()
        except OSError as error:
            raise ResourceNotFoundError(f"{name} is not there.") from error
        return content[offset : offset + limit], len(content)


class FakeUnsharedEngine(FakeEngine):
    """Hosts that share no folder with the controller; their agents keep results that it has not read."""

    capabilities: Capabilities = replace(FakeEngine.capabilities, shared_folder=False)

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = False) -> None:
        del has_remains
        super().__init__(world, launch_seconds=launch_seconds, has_remains=False)

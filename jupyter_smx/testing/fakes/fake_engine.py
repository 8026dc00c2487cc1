"""A fake engine over a fake world, and a zoo of troubles, each named by the failure that it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from jupyter_smx.engines.base import Capabilities, Engine, Observation
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle, HostHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.testing.fakes.fake_world import FakeWorld

NEVER = 1e9


class Trouble:
    """Something that goes wrong at an engine; this one is none."""

    async def before_launch(self) -> None:
        """Happen before anything was launched."""

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Happen after the launch and before the hosts can be reached."""

    def seen(self, found: Observation) -> Observation:
        """Change what a survey says of a cluster."""
        return found

    def asked(self) -> None:
        """Happen at every question."""

    def connecting(self, host: str) -> None:
        """Happen when somebody connects to a host."""


class Paused(Trouble):
    """Hosts that live and answer nobody, a number of times, and an engine that knows why."""

    def __init__(self, times: float = NEVER) -> None:
        self.times = times

    def connecting(self, host: str) -> None:
        """Say why not."""
        if self.times > 0:
            self.times -= 1
            raise UnavailableError(f"Host {host} is paused.", cure="Let it go on.", transient=True)


class NeverStarts(Trouble):
    """Hosts are launched and never listen."""

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Wait for ever."""
        del world, cluster
        await asyncio.sleep(NEVER)


class DiesDuringStart(Trouble):
    """The first host of a cluster dies before it listens."""

    async def while_starting(self, world: FakeWorld, cluster: str) -> None:
        """Kill it."""
        world.of(cluster)[0].die()


class RefusesTransiently(Trouble):
    """Says "not now" before anything is launched, a number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def before_launch(self) -> None:
        """Refuse."""
        if self.times > 0:
            self.times -= 1
            raise RefusedError("There is no capacity now.", transient=True)


class Refuses(Trouble):
    """Says no before anything is launched."""

    async def before_launch(self) -> None:
        """Refuse."""
        raise RefusedError("This role may not do that.")


class ForgetsCluster(Trouble):
    """Says of clusters that live that there are none."""

    def seen(self, found: Observation) -> Observation:
        """Lie."""
        del found
        return Observation.GONE


class Outage(Trouble):
    """Answers nothing; a survey knows nothing."""

    def asked(self) -> None:
        """Fail."""
        raise UnavailableError("The engine cannot be reached.", transient=True)

    def seen(self, found: Observation) -> Observation:
        """Know nothing."""
        del found
        return Observation.UNKNOWN


class DropsStreams(Trouble):
    """Takes every connection and closes it at once."""


class FakeEngine(Engine):
    """The five answers over a fake world; ``troubles`` may change at any time."""

    name: ClassVar[str] = "fake"
    capabilities: ClassVar[Capabilities] = Capabilities(
        shared_folder=True, bounded_by_machine=True, environments=True, same_paths=True
    )

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__()
        self.world = world
        self.troubles: list[Trouble] = []
        self.launch_seconds = launch_seconds
        self.has_remains = has_remains

    def _asked(self) -> None:
        for trouble in self.troubles:
            trouble.asked()

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give the hosts' names."""
        return {"engine": self.name, "hosts": [host.host for host in request.hosts]}

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        """Launch the hosts once; yields after each host, the complete handle last."""
        self._asked()
        if request.cluster in self.world.released:
            raise RefusedError(f"cluster: {request.cluster} was released.")
        for trouble in [*self.troubles]:
            await trouble.before_launch()
        self.world.launch(request)
        # A launched host costs before it can be named: whoever gives up now has no handle of it.
        await asyncio.sleep(self.launch_seconds / 2)
        for trouble in [*self.troubles]:
            await trouble.while_starting(self.world, request.cluster)
        yield self._handle(request.cluster, 1)
        await asyncio.sleep(self.launch_seconds / 2)
        if not all(host.alive for host in self.world.of(request.cluster)):
            self.world.release(request.cluster)
            raise UnavailableError("A host died while it started.", transient=True)
        yield self._handle(request.cluster, len(request.hosts))

    def _handle(self, cluster: str, count: int) -> Handle:
        hosts = tuple(HostHandle(host=host.name, data={}) for host in self.world.of(cluster)[:count])
        return Handle(engine=self.name, cluster=cluster, hosts=hosts)

    async def find(self, cluster: str) -> Handle | None:
        """Find the hosts of a cluster that was not released."""
        self._asked()
        hosts = self.world.of(cluster)
        return self._handle(cluster, len(hosts)) if hosts and cluster not in self.world.released else None

    async def survey(self, handles: Sequence[Handle]) -> list[Observation]:
        """Say what lives."""
        return [self._look(handle.cluster) for handle in handles]

    def _look(self, cluster: str) -> Observation:
        hosts = self.world.of(cluster)
        alive = bool(hosts) and all(host.alive for host in hosts)
        found = Observation.RUNNING if alive else Observation.GONE
        for trouble in self.troubles:
            found = trouble.seen(found)
        return found

    async def release(self, handle: Handle) -> None:
        """End the hosts."""
        self._asked()
        self.world.release(handle.cluster)

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host's agent over a socket pair."""
        self._asked()
        found = self.world.hosts.get((handle.cluster, host))
        if found is None or not found.alive:
            raise UnavailableError(f"Nobody listens on {host}.", transient=True)
        for trouble in self.troubles:
            trouble.connecting(host)
        broken = any(isinstance(trouble, DropsStreams) for trouble in self.troubles)
        return await self.world.cable(found, broken=broken)

    def remains(self, cluster: str, host: str) -> Path | None:
        """Give the spool folder, where this engine shares one."""
        return self.world.spool(cluster, host) if self.has_remains else None

"""A fake engine whose hosts are not this machine's, with instance types of its own; keeps what it was asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.engines.base import Capabilities, RequirementsError
from jupyter_smx.model.errors import RefusedError, suggest_names
from jupyter_smx.model.records.cluster import QueueStatus
from jupyter_smx.model.spec.instance import InstanceType
from jupyter_smx.testing.fakes.fake_engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.model.records.cluster import Handle, Renewal
    from jupyter_smx.testing.fakes.fake_world import FakeWorld


class FakeRemoteEngine(FakeEngine):
    """Hosts with the resources of their instance type, however small the controller's machine is."""

    capabilities: Capabilities = Capabilities(shared_folder=True, same_paths=True, interpreters="remote")

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__(world, launch_seconds=launch_seconds, has_remains=has_remains)
        self.types: tuple[InstanceType, ...] = (
            InstanceType(name="lab.gpu", vcpus=64, memory_gib=256.0, gpus=4),
            InstanceType(name="ml.m5.xlarge", vcpus=4, memory_gib=16.0),
            InstanceType(name="lab.small", vcpus=2, memory_gib=4.0, price_per_hour=0.5),
        )
        self.requests: list[ClusterRequest] = []
        self.allocation_ends_at: float | None = None
        """When the platform ends the hosts, seconds since the epoch; None: it has no such limit."""
        self.renewal: Renewal | None = None
        """The next allocation of each pool."""
        self.interpreters = {"": "", "torch": "/opt/torch/bin/python"}
        """Interpreters by name; a path resolves to itself."""

    def instance_types(self) -> Sequence[InstanceType]:
        """Return three types: one of its own, one with a name in the catalogue, and one with a price."""
        return self.types

    async def resolve_interpreter(self, word: str) -> str:
        """Resolve the default, an environment by its name, and a path to itself."""
        self._on_call()
        if word.startswith("/"):
            return word
        if word not in self.interpreters:
            raise RefusedError(
                f"--python: the engine fake has no environment {word!r}.",
                field="python",
                value=word,
                cure=suggest_names(word, [*filter(None, self.interpreters)]),
            )
        return self.interpreters[word]

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Launch as the other one does."""
        self.requests.append(request)
        async for handle in super().acquire(request):
            yield handle

    def _handle(self, cluster: str, count: int) -> Handle:
        handle = super()._handle(cluster, count)
        return replace(handle, allocation_ends_at=self.allocation_ends_at, renewal=self.renewal)


class FakeBuildingEngine(FakeRemoteEngine):
    """Installs requirements where its hosts are, at once; those of ``broken_requirements`` fail after a while."""

    capabilities: Capabilities = replace(FakeRemoteEngine.capabilities, builds_environments=True)

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__(world, launch_seconds=launch_seconds, has_remains=has_remains)
        self.broken_requirements = {"nosuch"}
        self.room: int | None = None

    def slots(self) -> int | None:
        """Return the number of hosts that it can have."""
        return self.room

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Install what the request needs, then launch."""
        if request.requirements:
            yield QueueStatus("Installs requirements on the fake machine")
        if self.broken_requirements.intersection(request.requirements):
            self.requests.append(request)
            await asyncio.sleep(self.launch_seconds)
            raise RequirementsError("--requirements: nosuch cannot be installed.", cure="Correct the name.")
        async for news in super().acquire(request):
            yield news

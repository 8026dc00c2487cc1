"""Parts that an engine's author supplies to the contract: the engine, its restart, and views of the real world."""

from __future__ import annotations

import secrets
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from jupyter_smx.agent.wire import PROTOCOL
from jupyter_smx.controller.agents.stream import AgentStream
from jupyter_smx.controller.transfer.file_sender import FileSender
from jupyter_smx.engines.base import ClusterRequest, HostSpec
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.spec.instance import HOMOGENEOUS, InstanceGroup
from jupyter_smx.testing.agent_client import AgentClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from jupyter_smx.engines.base import Engine


class Harness(ABC):
    """One engine and its world. The *side doors* must not use the engine: they check its reports."""

    engine: Engine
    gone_within: float = 0.0
    """Seconds after the end of an agent within which ``observe_all`` reports ``GONE``, if the platform notices late."""
    filled_in: frozenset[str] = frozenset()
    """Fields of ``actual_plan``, at any depth, that only the platform can fill in, as addresses; ``plan`` has none."""
    shared_handle: Handle | None = None
    """A running cluster of one host, for :meth:`acquire_shared`, which outlives this harness and its ``close``."""

    @abstractmethod
    def new_engine(self) -> Engine:
        """Return the same engine as a fresh process would: another instance that shares no memory."""

    @abstractmethod
    def live_hosts(self, cluster: str) -> set[str]:
        """Side door: name the hosts whose agent lives."""

    @abstractmethod
    def launch_counts(self, cluster: str) -> dict[str, int]:
        """Side door: count for each host how often the world really started its agent, losers of a race excepted."""

    @abstractmethod
    def command_lines(self, cluster: str) -> list[str]:
        """Side door: give what ``ps`` shows of each living process of the cluster, agents, jobs and orphans."""

    @abstractmethod
    def command_lines_with(self, token: str) -> list[str]:
        """Side door: give what ``ps`` shows of each living process of this world that has ``token`` in its command."""

    @abstractmethod
    def actual_plan(self, cluster: str) -> dict[str, object]:
        """Side door: give what was really launched, in the form of the engine's ``plan``, with ``filled_in``."""

    @abstractmethod
    def leftovers(self, cluster: str) -> list[str]:
        """Side door: name what the cluster still holds that costs something; records do not."""

    @abstractmethod
    def stored_bytes(self, cluster: str) -> bytes:
        """Side door: return everything that agents reported and the engine recorded about the cluster."""

    @abstractmethod
    def agent_memory(self, cluster: str, host: str) -> int:
        """Side door: give the resident memory of the host's agent in bytes."""

    @abstractmethod
    def kill_agent(self, cluster: str, host: str) -> None:
        """World: end one agent as an out-of-memory kill would; it has exited when this returns."""

    @abstractmethod
    def purge_cluster(self, cluster: str) -> None:
        """World: lose every trace of a cluster, as a provider does after some days."""

    @abstractmethod
    def outage(self) -> AbstractContextManager[None]:
        """World: the engine's platform cannot be reached while this lasts."""

    @abstractmethod
    def invalid_request(self) -> ClusterRequest:
        """Return a request that this engine must refuse before it launches anything.

        One that the engine itself refuses. A refusal that only a scheduler can give comes while the request waits.
        """

    def python(self) -> str:
        """Return the interpreter of the hosts."""
        return sys.executable

    def request(self, hosts: int = 1, *, cluster: str = "", preload: tuple[str, ...] = ()) -> ClusterRequest:
        """Return a request for a small cluster with a new id."""
        return ClusterRequest(
            cluster=cluster or secrets.token_hex(8),
            hosts=tuple(
                HostSpec(host=f"algo-{number}", group=HOMOGENEOUS, instance_type="local", vcpus=1)
                for number in range(1, hosts + 1)
            ),
            instance_groups=(InstanceGroup(instance_count=hosts),),
            python=self.python(),
            idle_limit=120.0,
            preload=preload,
        )

    async def handle_steps(self, request: ClusterRequest) -> AsyncGenerator[Handle, None]:
        """Acquire, and give the handles alone; close it to end that half-way."""
        steps = self.engine.acquire(request)
        try:
            async for step in steps:
                if isinstance(step, Handle):
                    yield step
        finally:
            await steps.aclose()  # type: ignore[attr-defined]  # all engines write acquire as a generator

    async def acquire(self, request: ClusterRequest | None = None, *, engine: Engine | None = None) -> Handle:
        """Acquire to the end, and give the complete handle."""
        handle = None
        async for step in (engine or self.engine).acquire(request or self.request()):
            handle = step if isinstance(step, Handle) else handle
        if handle is None:
            raise AssertionError("acquire ended without a handle")
        return handle

    async def acquire_shared(self) -> Handle:
        """Give one host to a test that leaves it as it was: ``shared_handle``, or else a new cluster.

        Each job there has lease 1, and each controller epoch 1, since a host refuses lower ones than it has seen.
        """
        return self.shared_handle or await self.acquire()

    async def has_idle_shared_host(self) -> bool:
        """Return True if a test left the shared host as it was, with no job that has not ended."""
        if self.shared_handle is None:
            return True
        try:
            async with AgentClient(self.engine, self.shared_handle) as agent:
                return all(job["phase"] == "ended" for job in agent.hello["jobs"].values())
        except (OSError, UnavailableError):
            return False

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Provide files of this machine to a host as the controller does: by the engine, else over the stream."""
        places = await self.engine.provide_files(handle, host, sources)
        if places is not None or self.engine.capabilities.same_paths:
            return places or {source: source for source in sources}
        reader, writer = await self.engine.connect(handle, host)
        stream = AgentStream(host, reader, writer, on_event=lambda *_event: None, on_close=lambda *_end: None)
        try:
            await stream.request("hello", protocol=PROTOCOL, epoch=1)
            return await FileSender().send(stream, sources)
        finally:
            stream.close()
            await stream.wait_closed()

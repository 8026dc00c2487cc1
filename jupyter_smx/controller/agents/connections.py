"""Open streams to all agents: one for each host of each cluster, over the engine's own channel."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.wire import PROTOCOL
from jupyter_smx.controller.agents.stream import AgentStream
from jupyter_smx.model.errors import UnavailableError, VersionMismatchError
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.hosts import agent_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_smx.controller.agents.front import FrontFolder
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Handle
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Agents:
    """Streams by cluster and host.

    ``on_event(cluster, host, header)`` receives every event of an agent, ``on_close(cluster, host, reason)`` is called
    when a stream ends by itself. ``ping_every`` and ``timeout`` are seconds; after ``misses`` silent periods a stream
    is closed. ``clock`` returns seconds since the epoch; without it the clocks of hosts count as equal. ``front``
    is the front for clients of AWS, for jobs of engines that reach it by the stream.
    """

    def __init__(
        self,
        on_event: Callable[[str, str, Mapping[str, Any]], None],
        on_close: Callable[[str, str, str], None],
        *,
        ping_every: float = 5.0,
        misses: int = 3,
        timeout: float = 10.0,
        clock: Callable[[], float] | None = None,
        front: FrontFolder | None = None,
    ) -> None:
        self._front = front
        self._on_event = on_event
        self._on_close = on_close
        self._ping_every = ping_every
        self._misses = misses
        self._timeout = timeout
        self._clock = clock
        self._streams: dict[str, dict[str, AgentStream]] = {}
        self._hosts: dict[str, frozenset[str]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, engine: Engine, handle: Handle, epoch: int) -> dict[str, dict[str, Any]]:
        """Send ``hello`` to the agent on every host, over existing or new streams; all or none.

        ``epoch`` is the controller's: an agent closes the streams of older ones. Return the replies by host.

        :raises UnavailableError: an agent cannot be reached.
        :raises VersionMismatchError: an agent speaks another protocol.
        :raises FencedError: an agent belongs to a newer controller.
        """
        greetings = await asyncio.gather(
            *(self._send_hello(engine, handle, host.host, epoch) for host in handle.hosts), return_exceptions=True
        )
        failed = [greeting for greeting in greetings if isinstance(greeting, BaseException)]
        if failed:
            self.close(handle.cluster)
            raise failed[0]
        self._hosts[handle.cluster] = frozenset(host.host for host in handle.hosts)
        return {
            host.host: greeting
            for host, greeting in zip(handle.hosts, greetings, strict=True)
            if not isinstance(greeting, BaseException)
        }

    def is_open(self, cluster: str) -> bool:
        """Return True if every host of ``cluster`` replied to ``hello`` and has an open stream."""
        hosts = self._hosts.get(cluster)
        return hosts is not None and hosts <= self._streams.get(cluster, {}).keys()

    def stream(self, cluster: str, host: str) -> AgentStream:
        """Return the open stream to a host.

        :raises UnavailableError: there is none.
        """
        stream = self._streams.get(cluster, {}).get(host)
        if stream is None:
            raise UnavailableError(f"The agent on {host} of cluster {cluster} is unreachable.", transient=True)
        return stream

    def longest_stall(self, cluster: str) -> tuple[str, float] | None:
        """Return the host of a cluster whose open stream has been silent for longest, and the seconds."""
        silent = ((host, stream.stalled_seconds()) for host, stream in self._streams.get(cluster, {}).items())
        return max((one for one in silent if one[1]), key=lambda one: one[1], default=None)

    def request_stop(self, job: Job, hosts: Iterable[str], grace: float, cause: str) -> None:
        """Request hosts to end their part of a job: SIGTERM now, and SIGKILL after ``grace`` seconds.

        :raises UnavailableError: one of them has no open stream.
        """
        for host in hosts:
            self.stream(job.cluster, host).request_stop(job=job.id, lease=job.lease, grace=grace, cause=cause)

    def dropped_frames(self) -> int:
        """Count the frames of open streams that fitted nothing that was asked."""
        return sum(stream.dropped_frames for streams in self._streams.values() for stream in streams.values())

    def close(self, cluster: str) -> None:
        """Close the streams of a cluster; ``on_close`` is not called. Idempotent."""
        self._hosts.pop(cluster, None)
        for stream in self._streams.pop(cluster, {}).values():
            self._close_stream(stream)

    async def end_all(self, timeout: float) -> None:
        """Send a request to every reachable agent to end its host with all processes; wait for the answers.

        ``timeout`` is in seconds. Agents that do not answer end at their own deadline.
        """
        streams = [stream for streams in self._streams.values() for stream in streams.values()]
        await asyncio.gather(*(stream.request("end", timeout=timeout) for stream in streams), return_exceptions=True)

    async def close_all(self) -> None:
        """Close every stream and wait until the sockets are closed; the agents go on."""
        for cluster in list(self._streams):
            self.close(cluster)
        await asyncio.gather(*self._closing)

    async def _send_hello(self, engine: Engine, handle: Handle, host: str, epoch: int) -> dict[str, Any]:
        stream = self._streams.get(handle.cluster, {}).get(host) or await self._connect(engine, handle, host)
        try:
            offer = {} if stream.channels is None else {"channels": True}
            reply, _ = await stream.request("hello", timeout=self._timeout, protocol=PROTOCOL, epoch=epoch, **offer)
            _check_protocol(host, reply)
            greeting = agent_messages.parse_hello(reply)
        except agent_messages.MalformedMessageError as error:
            self._discard(handle.cluster, host, stream)
            raise UnavailableError(
                f"The process that answers on {host} is not a jupyter_smx agent: its hello message is invalid "
                f"({error}).",
                transient=True,
            ) from error
        except BaseException:
            self._discard(handle.cluster, host, stream)
            raise
        self._streams.setdefault(handle.cluster, {})[host] = stream
        return greeting

    def _discard(self, cluster: str, host: str, stream: AgentStream) -> None:
        self._streams.get(cluster, {}).pop(host, None)
        self._close_stream(stream)

    async def _connect(self, engine: Engine, handle: Handle, host: str) -> AgentStream:
        try:
            reader, writer = await asyncio.wait_for(engine.connect(handle, host), self._timeout)
        except asyncio.TimeoutError as error:
            raise UnavailableError(
                f"The agent on {host} did not accept a connection within {format_duration(self._timeout)}.",
                transient=True,
            ) from error
        except OSError as error:
            raise UnavailableError(
                f"The agent on {host} is unreachable: {error.strerror or error}.", transient=True
            ) from error
        stream = AgentStream(
            host,
            reader,
            writer,
            on_event=lambda host, header: self._on_event(handle.cluster, host, header),
            on_close=lambda host, reason: self._on_stream_closed(handle.cluster, host, reason),
            ping_every=self._ping_every,
            misses=self._misses,
            clock=self._clock,
        )
        if self._front is not None and engine.capabilities.aws_front == "stream":
            stream.lead_to_front(self._front)
        return stream

    def _on_stream_closed(self, cluster: str, host: str, reason: str) -> None:
        stream = self._streams.get(cluster, {}).pop(host, None)
        _log.info("host=%s cluster=%s agent stream closed: %s", host, cluster, reason)
        if stream is not None:
            self._close_stream(stream)
            self._on_close(cluster, host, reason)

    def _close_stream(self, stream: AgentStream) -> None:
        stream.close()
        task = asyncio.get_running_loop().create_task(stream.wait_closed(), name=f"close {stream.host}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _check_protocol(host: str, greeting: Mapping[str, Any]) -> None:
    spoken = greeting.get("protocol")
    if spoken != PROTOCOL:
        raise VersionMismatchError(
            f"The agent on {host} uses protocol version {spoken}, but this controller uses {PROTOCOL}.",
            cure="Release the pool; the next one starts with the current version.",
        )

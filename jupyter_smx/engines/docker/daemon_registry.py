"""Choose the daemon for new hosts, find the daemon of a cluster, and check that its containers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.base import StoppedAgent, stopped_process
from jupyter_smx.engines.docker.containers.agent_process import stopped_agent_pid
from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo
from jupyter_smx.engines.docker.teardown import ALIVE
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.model.records.cluster import Handle

_PAUSED = "paused"
_CONNECT_CHECK_TIMEOUT = 2.0
"""Seconds for an optional request; a connection to a host takes ten at most, in total."""


class DaemonRegistry:
    """The daemons with hosts of this engine: one for new hosts, and those that earlier controllers chose.

    ``chosen`` returns the address for new hosts, and is called once; ``seconds`` is the time limit of an answer.
    """

    def __init__(self, chosen: Callable[[], str], seconds: Callable[[], float]) -> None:
        self._choose_url = chosen
        self._seconds = seconds
        self.url = ""
        """Address of the daemon of new hosts, after its first use."""
        self._daemons: dict[str, Daemon] = {}
        self._paused: dict[str, frozenset[str]] = {}
        """Containers that the last look at each daemon found paused, by its address."""
        self._first_pids: dict[str, int] = {}
        """The PID of the first process of each container that was inspected, as its daemon numbers processes."""

    def default(self) -> Daemon:
        """Find the daemon of new hosts, once; a context that is changed later has no effect.

        :raises RefusedError: its address is not a unix socket.
        """
        self.url = self.url or self._choose_url()
        return self.get(self.url)

    def get(self, url: str) -> Daemon:
        """Return the daemon of an existing host, which another controller may have chosen; "" is that of new ones.

        :raises RefusedError: there is none for new hosts.
        """
        if not url:
            return self.default()
        if url not in self._daemons:
            self._daemons[url] = Daemon(url, self._seconds())
        return self._daemons[url]

    def for_handle(self, handle: Handle) -> Daemon:
        """Return the daemon of a cluster.

        :raises RefusedError: its record does not name one, and there is none for new hosts.
        """
        return self.get(handle_daemon_url(handle))

    def kind(self) -> DaemonInfo:
        """Return the kind of the daemon of new hosts, as far as it is known."""
        return self._daemons[self.url].kind if self.url in self._daemons else DaemonInfo()

    async def states(self, url: str, label: str) -> dict[str, str] | None:
        """Return the states of all containers with a label; None if the daemon does not answer."""
        try:
            rows = await self.get(url).containers(label)
        except (UnavailableError, RefusedError):  # it is away, or what is configured now is no daemon of this machine
            return None
        states = {row["Id"]: str(row["State"]) for row in rows}
        self._paused[url] = frozenset(one for one, state in states.items() if state == _PAUSED)
        return states

    async def inspect(self, handle: Handle, container: str) -> dict[str, Any] | None:
        """Inspect a container before connecting to its agent; do not wait for a daemon that hangs.

        :raises UnavailableError: the daemon does not answer.
        """
        return await self.for_handle(handle).inspect(container, min(_CONNECT_CHECK_TIMEOUT, self._seconds()))

    async def check_unpaused(self, handle: Handle, host: str, container: str, name: str) -> None:
        """Check that a host's container is not paused; messages use its ``name``.

        :raises UnavailableError: it is paused. A daemon that does not answer raises nothing.
        """
        try:
            found = await self.inspect(handle, container)
        except UnavailableError:
            return  # hosts outlive a daemon with live restore, and the connection to their agents does not need it
        state = found["State"] if found else {}
        self._first_pids[container] = int(state.get("Pid") or 0)
        if state.get("Paused"):
            raise UnavailableError(
                f"Host {host} of cluster {handle.cluster} is paused.",
                rule="A paused container does not respond, and its deadline is suspended.",
                cure=self._unpause_sentence(handle, name),
                transient=True,
            )

    def stopped_agent(self, handle: Handle, container: str, name: str) -> StoppedAgent | None:
        """Describe the agent of a container that was paused at the last look, or whose agent is stopped now.

        Asks no daemon; messages use the container's ``name``.
        """
        if container in self._paused.get(handle_daemon_url(handle), ()):
            return StoppedAgent("its container is paused", self._unpause_sentence(handle, name))
        pid = stopped_agent_pid(self._first_pids.get(container, 0), container)
        return stopped_process(pid) if pid else None

    def forget(self, handle: Handle) -> None:
        """Drop what is known of a cluster's containers, which are released."""
        for host in handle.hosts:
            self._first_pids.pop(str(host.data.get("container")), None)

    def _unpause_sentence(self, handle: Handle, name: str) -> str:
        return f"Resume it with {self.for_handle(handle).kind.program} unpause {name}."


def handle_daemon_url(handle: Handle) -> str:
    """Return the address of the daemon with a cluster's containers, "" if its record has none."""
    return next((str(host.data["daemon"]) for host in handle.hosts if "daemon" in host.data), "")


def are_alive(handle: Handle, states: Mapping[str, str]) -> bool:
    """Return True if a cluster has containers, and all of them run or are paused."""
    found = [states.get(str(host.data.get("container")), "") for host in handle.hosts]
    return bool(found) and all(state in ALIVE for state in found)

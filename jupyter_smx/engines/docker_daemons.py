"""Which daemon new hosts are made at, at which one a cluster's containers are, and whether they are alive there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.engines.docker_daemon import Daemon
from jupyter_smx.engines.docker_end import ALIVE
from jupyter_smx.engines.docker_kind import Kind
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.model.cluster import Handle


class Daemons:
    """The daemons that hosts of this engine are at: one for new ones, and those that earlier controllers had chosen.

    ``chosen`` says where new ones are made, and is asked once; ``seconds`` how long a daemon may take for an answer.
    """

    def __init__(self, chosen: Callable[[], str], seconds: Callable[[], float]) -> None:
        self._chosen = chosen
        self._seconds = seconds
        self._url = ""
        self._known: dict[str, Daemon] = {}

    def usual(self) -> Daemon:
        """Find the daemon of new hosts, once: whoever chooses another context meanwhile has hosts here all the same.

        :raises RefusedError: it is not on this machine.
        """
        self._url = self._url or self._chosen()
        return self.at(self._url)

    def at(self, url: str) -> Daemon:
        """Give the daemon at which a host was made, which another controller may have chosen; "" is that of new ones.

        :raises RefusedError: there is none for new hosts.
        """
        if not url:
            return self.usual()
        if url not in self._known:
            self._known[url] = Daemon(url, self._seconds())
        return self._known[url]

    def of(self, handle: Handle) -> Daemon:
        """Give the daemon of a cluster.

        :raises RefusedError: its record does not say, and there is none for new hosts.
        """
        return self.at(url_of(handle))

    def kind(self) -> Kind:
        """Say what the daemon of new hosts is, as far as that is known by now."""
        return self._known[self._url].kind if self._url in self._known else Kind()

    async def states(self, url: str, label: str) -> dict[str, str] | None:
        """Ask a daemon for the states of all containers that have a label; None where it does not say."""
        try:
            rows = await self.at(url).containers(label)
        except (UnavailableError, RefusedError):  # it is away, or what is configured now is no daemon of this machine
            return None
        return {row["Id"]: str(row["State"]) for row in rows}

    async def is_paused(self, handle: Handle, container: str) -> bool:
        """Say whether a container is paused; of a daemon that does not answer nobody knows."""
        try:
            found = await self.of(handle).inspect(container)
        except UnavailableError:
            return False  # hosts outlive their daemon where it is told to let them, and our way to them is not its
        return bool(found and found["State"].get("Paused"))


def url_of(handle: Handle) -> str:
    """Say at which daemon a cluster's containers are, "" where its record does not say."""
    return next((str(host.data["daemon"]) for host in handle.hosts if "daemon" in host.data), "")


def are_alive(handle: Handle, states: Mapping[str, str]) -> bool:
    """Say whether a cluster has containers, and all of them run or are paused."""
    found = [states.get(str(host.data.get("container")), "") for host in handle.hosts]
    return bool(found) and all(state in ALIVE for state in found)

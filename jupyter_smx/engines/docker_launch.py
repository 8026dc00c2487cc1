"""The birth and the end of the containers of one cluster."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines import docker_plan
from jupyter_smx.engines.docker_daemon import CONFLICT, NOT_THERE, UNCHANGED, DaemonError, remove
from jupyter_smx.model.cluster import HostHandle
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.engines.cluster_folders import ClusterFolders
    from jupyter_smx.engines.docker_daemon import Daemon
    from jupyter_smx.engines.host_folder import HostFolder

_log = logging.getLogger(__name__)

_LOOK_AGAIN = 0.01
"""Seconds between looks at the file by which an agent says that it listens."""
_LOOKS = 20
"""Such looks for one at the container: a file costs nothing to look at, a daemon some milliseconds."""
ALIVE = ("running", "paused")
_ENDED = ("exited", "dead")
_LOG_LINES = 5
_ROOM = "pool"
"""In the words of every daemon that has no addresses left for one more network."""
_KILLED = {137: "kill", 143: "stop"}
"""Exit codes of SIGKILL and SIGTERM, and by what people send these."""


class Launch:
    """What is done for one request; nothing is launched twice, whoever else does the same."""

    def __init__(
        self,
        daemon: Daemon,
        folders: ClusterFolders,
        request: ClusterRequest,
        network: dict[str, Any] | None,
        seconds: float,
    ) -> None:
        self._daemon = daemon
        self._folders = folders
        self._cluster = request.cluster
        self._is_single = len(request.hosts) == 1
        self._wish = network
        self._seconds = seconds
        self._making = asyncio.Lock()
        self._network: str | None = None

    async def network(self) -> str:
        """Make the cluster's network unless it is there, once for all its hosts; gives what they join.

        :raises UnavailableError: the daemon has no room for one more, or is away.
        """
        async with self._making:
            if self._network is None:
                self._network = "" if self._wish is None else await self._make_network(self._wish)
        return self._network

    async def _make_network(self, wish: dict[str, Any]) -> str:
        lock = self._folders.clusters / self._cluster / "network.lock"
        try:
            await self._daemon.ask(lambda api: self._network_once(api, wish, lock), self._seconds)
        except DaemonError as problem:
            if self._is_single and _ROOM in problem.words.lower():
                # A daemon has some thirty networks, and a machine may have more jobs: who has no other host to find
                # need not wait for one.
                _log.warning("Cluster %s shares Docker's usual network: %s", self._cluster, problem.words)
                return docker_plan.BRIDGE
            raise UnavailableError(
                f"Cluster {self._cluster} did not get its network: {problem.words}.",
                field="hosts",
                rule="The hosts of a cluster find each other in a network of their own.",
                cure="docker network prune removes unused ones; the daemon's default-address-pools has room for more.",
                transient=True,
            ) from problem
        return str(wish["Name"])

    async def bring_up(self, host: str, wish: dict[str, Any]) -> HostHandle:
        """Make a host's container unless it is there, start it, and wait until its agent listens.

        Its time runs from when it is its turn: with many at once each of them would be late.

        :raises UnavailableError: it did not come up.
        """
        config = docker_plan.joining(wish, await self.network())
        loop = asyncio.get_running_loop()
        try:
            async with self._daemon.starts:
                end = loop.time() + self._seconds
                container = await asyncio.wait_for(self._launch_or_join(host, config), self._seconds)
            await asyncio.wait_for(self._wait(container, host), end - loop.time())
        except asyncio.TimeoutError:
            raise await self._did_not_start(host, f"said nothing for {self._seconds:g} s") from None
        except DaemonError as problem:
            raise await self._did_not_start(host, f"could not be started ({problem.words})") from problem
        except OSError as problem:
            raise await self._did_not_start(host, f"could not be started ({problem})") from problem
        return handle_of(host, container, self._daemon)

    async def _launch_or_join(self, host: str, config: dict[str, Any]) -> str:
        name = f"jupyter-smx-{self._cluster}-{host}"
        container = await self._create(name, config)
        seen = await self._seen(container, host)
        if seen["Status"] == "created":
            await self._start(container)
        return container

    async def _create(self, name: str, config: dict[str, Any]) -> str:
        """Make a container, or find the one that somebody else made."""
        while True:
            try:
                made: str = await self._daemon.ask(lambda api: self._create_once(api, name, config), self._seconds)
            except DaemonError as problem:
                if problem.status != CONFLICT:
                    raise
                found = await self._daemon.inspect(name)
                if found is not None and not _is_ours(found["Config"], config):
                    raise DaemonError(
                        CONFLICT, f"another container is called {name}; docker rm removes it"
                    ) from problem
                if found is not None:
                    return str(found["Id"])
            else:
                return made
            # The daemon gives the name away a moment before there is a container to look at.
            await asyncio.sleep(_LOOK_AGAIN)

    def _create_once(self, api: Any, name: str, config: dict[str, Any]) -> str:
        """Make a container, and unmake it where the cluster was released before: that release may not have seen it.

        In one thread, which goes on to its end also when whoever asked was cancelled.
        """
        made = str(api.create_container_from_config(config, name)["Id"])
        if why := self._over():
            remove(api, made)
            raise DaemonError(NOT_THERE, why)
        return made

    def _over(self) -> str:
        """Say why nothing may begin in this cluster any more, "" where it may; of a disk that is away nobody knows."""
        try:
            return "it was released meanwhile" if self._folders.is_released(self._cluster) else ""
        except OSError as problem:
            return f"its folder cannot be looked at ({problem})"

    def _network_once(self, api: Any, wish: dict[str, Any], lock: Path) -> None:
        """Make a network unless there is one: an older daemon makes two of one name where it is asked twice at once."""
        name = wish["Name"]
        with _locked(lock):
            found = [row for row in api.networks(names=[name]) if row["Name"] == name]
            if any(not _is_ours(row, wish) for row in found):
                raise DaemonError(CONFLICT, f"another network is called {name}; docker network rm removes it")
            if found:
                return
            made = api.create_network(
                name, driver=wish["Driver"], internal=wish["Internal"], labels=wish["Labels"], check_duplicate=True
            )
            if why := self._over():
                api.remove_network(made["Id"])
                raise DaemonError(NOT_THERE, why)

    async def _start(self, container: str) -> None:
        try:
            await self._daemon.ask(lambda api: api.start(container), self._seconds)
        except DaemonError as problem:
            if problem.status != UNCHANGED:
                raise

    async def _wait(self, container: str, host: str) -> None:
        folder = self._folders.host(self._cluster, host)
        looks = 0
        while True:
            listens = await asyncio.to_thread(_listens, folder)
            if listens or looks % _LOOKS == 0:
                seen = await self._seen(container, host)
                if seen["Status"] in _ENDED:
                    raise await self._did_not_start(host, _end_of(seen))
                if listens:
                    return
            looks += 1
            await asyncio.sleep(_LOOK_AGAIN)

    async def _seen(self, container: str, host: str) -> dict[str, Any]:
        found = await self._daemon.inspect(container)
        if found is None:
            raise await self._did_not_start(host, "was removed meanwhile")
        state: dict[str, Any] = found["State"]
        return state

    async def _did_not_start(self, host: str, what: str) -> UnavailableError:
        folder = self._folders.host(self._cluster, host)
        words = await asyncio.to_thread(folder.last_words) or await self._last_words(host)
        return UnavailableError(
            f"Host {host} of cluster {self._cluster} did not start: its container {what}.",
            field="host",
            value=host,
            rule=f"Its log ends with: {words}" if words else "It wrote nothing into its log.",
            cure=f"The whole log is {folder.log}.",
            transient=True,
        )

    async def _last_words(self, host: str) -> str:
        name = f"jupyter-smx-{self._cluster}-{host}"
        try:
            said: bytes = await self._daemon.ask(lambda api: api.logs(name, tail=_LOG_LINES))
        except (DaemonError, UnavailableError):
            return ""
        return " | ".join(line.strip() for line in said.decode(errors="replace").splitlines() if line.strip())


def handle_of(host: str, container: str, daemon: Daemon) -> HostHandle:
    """Give what finds a host again, also for a controller that makes its own hosts at another daemon."""
    return HostHandle(host=host, data={"container": container, "daemon": daemon.url})


def _listens(folder: HostFolder) -> bool:
    return (folder.path / "agent.json").exists()


def _end_of(state: dict[str, Any]) -> str:
    if state.get("OOMKilled"):
        return "was ended by the system for lack of memory"
    error = f" ({state['Error']})" if state.get("Error") else ""
    return f"ended with exit code {state.get('ExitCode')}{error}"


def _is_ours(found: Mapping[str, Any], wish: Mapping[str, Any]) -> bool:
    """Say whether what has the name that we want has our labels as well."""
    labels = found.get("Labels") or {}
    return all(labels.get(name) == text for name, text in wish["Labels"].items())


def obituary(state: Mapping[str, Any]) -> str:
    """Say how a container ended, from what the daemon knows of it; "" where it ended by itself and well; pure."""
    code = int(state.get("ExitCode") or 0)
    if state.get("OOMKilled"):
        return "the system ended its container for lack of memory. Use less, or a larger instance."
    if code in _KILLED:
        return f"its container was ended from outside, by docker {_KILLED[code]} or with its daemon."
    return f"its container ended with exit code {code}." if code else ""


async def ends_of(daemon: Daemon, labels: Sequence[str]) -> dict[str, str]:
    """Say of each host how its container ended, if it did: once it is removed nobody knows it.

    :raises UnavailableError: the daemon does not say which containers there are.
    """
    found: dict[str, str] = {}
    for row in await daemon.containers(*labels):
        told = None
        with suppress(UnavailableError):  # words for a sentence never hold up a release
            told = None if row["State"] in ALIVE else await daemon.inspect(row["Id"])
        if told is not None:
            found[row["Labels"].get(docker_plan.HOST, "")] = obituary(told["State"])
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def remove_all(
    daemon: Daemon, labels: Sequence[str], seconds: float, spare: Callable[[dict[str, Any]], bool] = lambda _row: False
) -> list[str]:
    """Remove the containers with these labels at once, then their networks; gives the names of what was removed.

    :raises UnavailableError: the daemon is away, or one of them does not vanish.
    """
    rows = [row for row in await daemon.containers(*labels) if not spare(row)]
    await asyncio.gather(*(_remove_container(daemon, row["Id"], seconds) for row in rows))
    networks = [row for row in await daemon.networks(*labels) if not spare(row)]
    for row in networks:
        await _remove_network(daemon, row["Id"])
    return [*(row["Names"][0].lstrip("/") if row.get("Names") else row["Id"] for row in rows)] + [
        f"network {row['Name']}" for row in networks
    ]


async def _remove_container(daemon: Daemon, container: str, seconds: float) -> None:
    try:
        await daemon.ask(lambda api: remove(api, container), seconds)
    except DaemonError as problem:
        if problem.status == NOT_THERE:
            return
        if problem.status != CONFLICT:
            raise daemon.trouble(f"remove container {container[:12]}", problem) from problem
        await _wait_gone(daemon, container, seconds)  # somebody else is removing it


async def _wait_gone(daemon: Daemon, container: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while await daemon.inspect(container) is not None:
        if loop.time() > end:
            raise UnavailableError(
                f"Container {container[:12]} does not vanish although it was removed.",
                rule="The system holds one of its processes, which waits for a device or a network disk.",
                cure="The release is tried again until it is gone.",
                transient=True,
            )
        await asyncio.sleep(_LOOK_AGAIN)


async def _remove_network(daemon: Daemon, network: str) -> None:
    try:
        await daemon.ask(lambda api: api.remove_network(network))
    except DaemonError as problem:
        if problem.status != NOT_THERE:
            raise daemon.trouble("remove a cluster's network", problem) from problem

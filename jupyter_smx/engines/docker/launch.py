"""Launch the containers of one cluster, and their network."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.docker.containers import container_spec, gpus, isolation, probe_container
from jupyter_smx.engines.docker.containers.folders import join_lock_path, network_lock_path
from jupyter_smx.engines.docker.daemon.daemon_client import CONFLICT, NOT_FOUND, NOT_MODIFIED, DaemonError, remove
from jupyter_smx.engines.machine import file_lock, request_validation
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import HostHandle
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
    from jupyter_smx.engines.machine.host_folder import HostFolder

_log = logging.getLogger(__name__)

_LOG_LINES = 5
_NO_ADDRESSES = "pool"
"""Part of the message of every daemon that has no addresses left for another network."""
_DISK_FULL = "no space left on device"


class ClusterLaunch:
    """The launch of one cluster; nothing is launched twice, even if another task launches the same cluster."""

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
        self._network_config = network
        self._seconds = seconds
        self._network_lock = asyncio.Lock()
        self._network: str | None = None

    async def network(self) -> str:
        """Create the cluster's network unless it exists, once for all its hosts; return its name.

        :raises UnavailableError: the daemon has no addresses for another one, or does not answer.
        """
        async with self._network_lock:
            if self._network is None:
                self._network = "" if self._network_config is None else await self._make_network(self._network_config)
        return self._network

    async def _make_network(self, wish: dict[str, Any]) -> str:
        lock = network_lock_path(self._folders, self._cluster)
        try:
            await self._daemon.call(lambda api: self._network_once(api, wish, lock), self._seconds)
        except DaemonError as problem:
            if self._is_single and _NO_ADDRESSES in problem.message.lower():
                # A daemon has some thirty networks, and a machine may have more jobs: a single host, with no other
                # host to find, need not wait for one.
                _log.warning("cluster=%s uses the default network: %s", self._cluster, problem.message)
                return container_spec.BRIDGE
            raise UnavailableError(
                f"Cluster {self._cluster} did not get its network: {problem.message}.",
                field="hosts",
                rule="The hosts of a cluster find each other on a separate network.",
                cure=f"{self._daemon.kind.program} network prune removes unused networks; extend "
                "default-address-pools for more.",
                transient=True,
            ) from problem
        return str(wish["Name"])

    async def launch_host(self, plan: HostSpec, order: container_spec.ContainerPlan) -> HostHandle:
        """Create a host's container unless it exists, start it, and wait until its agent listens.

        The time limit begins when its turn comes: with many launches at once, each of them would be late.

        :raises RefusedError: it needs GPUs that the daemon does not provide, or the disk of its folder is full.
        :raises UnavailableError: it did not come up.
        """
        host, loop = plan.host, asyncio.get_running_loop()
        try:
            async with self._daemon.start_slot():
                end = loop.time() + self._seconds
                found, is_shared = await asyncio.wait_for(self._launch_or_join(host, order), self._seconds)
            await asyncio.wait_for(self._wait_ready(found["Id"], host), end - loop.time())
        except asyncio.TimeoutError:
            raise await self._start_error(host, f"did not report within {format_duration(self._seconds)}") from None
        except DaemonError as problem:
            refusal = gpus.refusal(self._daemon.kind, plan, problem.message)
            words = f"could not be started ({problem.message})"
            raise refusal or await self._start_error(host, words) from problem
        except OSError as problem:
            raise await self._start_error(host, f"could not be started ({problem})") from problem
        return host_handle(host, found["Id"], self._daemon, found["Config"].get("Labels"), is_shared=is_shared)

    async def _launch_or_join(self, host: str, order: container_spec.ContainerPlan) -> tuple[dict[str, Any], bool]:
        """Create the missing parts of a host, and start it.

        Returns the container as the daemon lists it, and whether it shares a network with others. The network is
        created while the container is created and started, because each takes a daemon long; Podman and an entry
        point need the network first.
        """
        name = container_spec.container_name(self._cluster, host)
        if self._daemon.kind.podman or order.is_created_in_network():
            return await self._run(
                name, container_spec.use_default_network(order.container, await self.network())
            ), False
        if not order.endpoint:
            return await self._run(name, order.container), False
        if order.joins_default_network():
            found = await self._run(name, order.container)
            return found, await self._join_default_network(host, found["Id"], order.endpoint)
        found, network = await self._run_and_make_network(name, order.container)
        # On the default network there is only a single host, which needs no names for others to find it.
        endpoint = {"net_id": container_spec.BRIDGE} if network == container_spec.BRIDGE else order.endpoint
        return found, await self._join(host, found["Id"], endpoint)

    async def _join_default_network(self, host: str, container: str, endpoint: dict[str, Any]) -> bool:
        """Connect a host to the daemon's default network, or to one of its own if the daemon has none (``bridge``)."""
        try:
            return await self._join(host, container, endpoint)
        except DaemonError as problem:
            if problem.status != NOT_FOUND:
                raise
        await self.network()
        return await self._join(host, container, container_spec.separate_endpoint(self._cluster, host))

    async def _join(self, host: str, container: str, endpoint: dict[str, Any]) -> bool:
        lock = join_lock_path(self._folders, self._cluster, host)
        join = partial(self._join_once, container=container, endpoint=endpoint, lock=lock)
        return await self._daemon.call(join, self._seconds)

    async def _run_and_make_network(self, name: str, config: dict[str, Any]) -> tuple[dict[str, Any], str]:
        making = asyncio.ensure_future(self.network())
        try:
            return await self._run(name, config), await making
        except DaemonError:
            # Report the error only when nothing is being made any more, so that the clean-up misses nothing.
            await asyncio.gather(making, return_exceptions=True)
            raise
        finally:
            making.cancel()

    async def _run(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        found = await self._create(name, config)
        if found["State"]["Status"] == "created":
            try:
                await self._start(found["Id"])
            except DaemonError as problem:
                unnamed = container_spec.without_machine_name(config, problem.message)
                if unnamed is None:
                    raise
                await self._daemon.call(lambda api: remove(api, found["Id"]), self._seconds)
                return await self._run(name, unnamed)
        return found

    def _join_once(self, api: Any, container: str, endpoint: dict[str, Any], lock: Path) -> bool:
        """Connect a host to a network unless it has one; return True if that is the default network.

        Another task may do the same at this moment.
        """
        with file_lock.acquire(lock, lambda: bool(self._abort_reason())):
            there = api.inspect_container(container)["NetworkSettings"]["Networks"] or {}
            if joined := {*there} - {container_spec.NONE}:
                return container_spec.BRIDGE in joined
            if there:  # a container in the network "none" can join no other
                api.disconnect_container_from_network(container, container_spec.NONE)
            api.connect_container_to_network(container, **endpoint)
        return bool(endpoint["net_id"] == container_spec.BRIDGE)

    async def _create(self, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """Create a container, or find an existing one; return it as the daemon describes it."""
        while True:
            try:
                made = await self._daemon.call(lambda api: self._create_once(api, name, config), self._seconds)
            except DaemonError as problem:
                if problem.status != CONFLICT:
                    raise
                found = await self._daemon.inspect(name)
                if found is not None and not _is_ours(found["Config"], config):
                    raise DaemonError(
                        CONFLICT, f"another container has the name {name}; {self._daemon.kind.program} rm removes it"
                    ) from problem
                if found is not None:
                    return found
            else:
                state = {"Status": "created"}
                return {"Id": made, "State": state, "Config": config, "HostConfig": config["HostConfig"]}
            # The daemon reserves the name a moment before the container can be inspected.
            await asyncio.sleep(probe_container.POLL_INTERVAL)

    def _create_once(self, api: Any, name: str, config: dict[str, Any]) -> str:
        """Create a container; remove it if its cluster was released meanwhile, because the release may have missed it.

        Runs in one thread, which finishes even if the caller was cancelled.
        """
        made = str(api.create_container_from_config(config, name)["Id"])
        if why := self._abort_reason():
            remove(api, made)
            raise DaemonError(NOT_FOUND, why)
        return made

    def _abort_reason(self) -> str:
        """Return why nothing may start in this cluster any more; "" if it may, or if its disk is unavailable."""
        try:
            return "the cluster was released meanwhile" if self._folders.is_released(self._cluster) else ""
        except OSError as problem:
            return f"its folder cannot be read ({problem})"

    def _network_once(self, api: Any, wish: dict[str, Any], lock: Path) -> None:
        """Make a network unless there is one: an older daemon makes two of one name where it is asked twice at once."""
        name = wish["Name"]
        with file_lock.acquire(lock, lambda: bool(self._abort_reason())) as is_held:
            # A release that has seen this lock free looks for networks now, and does not look again.
            if (why := self._abort_reason()) or not is_held:
                raise DaemonError(NOT_FOUND, why)
            found = [row for row in api.networks(names=[name]) if row["Name"] == name]
            if any(not _is_ours(row, wish) for row in found):
                raise DaemonError(
                    CONFLICT, f"another network has the name {name}; {self._daemon.kind.program} network rm removes it"
                )
            if found:
                return
            told = {"driver": wish["Driver"], "internal": wish["Internal"], "labels": wish["Labels"]}
            made = api.create_network(name, **told, options=wish["Options"] or None, check_duplicate=True)
            if why := self._abort_reason():
                api.remove_network(made["Id"])
                raise DaemonError(NOT_FOUND, why)

    async def _start(self, container: str) -> None:
        try:
            await self._daemon.call(lambda api: api.start(container), self._seconds)
        except DaemonError as problem:
            if problem.status != NOT_MODIFIED:
                raise

    async def _wait_ready(self, container: str, host: str) -> None:
        """Wait until the agent listens; it holds jobs back until its first zygote is up."""
        folder, see = self._folders.host(self._cluster, host), partial(self._check_running, container, host)
        await probe_container.wait_for_file(folder.socket.exists, see)
        while not await _is_listening(folder):
            await see()  # it may have ended; a daemon takes long to report that, so it is asked only if needed
            await asyncio.sleep(probe_container.POLL_INTERVAL)

    async def _check_running(self, container: str, host: str) -> None:
        seen = (await self._inspect(container, host))["State"]
        if seen["Status"] in probe_container.ENDED_STATES:
            request_validation.check_disk(seen.get("ExitCode"), self._folders.root)
            raise await self._start_error(host, _format_exit(seen))

    async def _inspect(self, container: str, host: str) -> dict[str, Any]:
        found = await self._daemon.inspect(container)
        if found is None:
            raise await self._start_error(host, "was removed meanwhile")
        return found

    async def _start_error(self, host: str, what: str) -> UnavailableError:
        folder = self._folders.host(self._cluster, host)
        name = container_spec.container_name(self._cluster, host)
        words = await asyncio.to_thread(folder.log_tail)
        words = words or await probe_container.log_tail(self._daemon, name, _LOG_LINES)
        room = f"Free some space on the disk of the daemon; {self._daemon.kind.program} system df shows its use."
        return UnavailableError(
            f"Host {host} of cluster {self._cluster} did not start: its container {what}.",
            field="host",
            value=host,
            rule=f"Its log ends with: {words}" if words else "Its log is empty.",
            cure=room if _DISK_FULL in what.lower() else f"The whole log is {folder.log}.",
            transient=True,
        )


async def _is_listening(folder: HostFolder) -> bool:
    try:
        _, writer = await folder.dial()
    except UnavailableError:
        return False
    writer.close()
    return True


def host_handle(
    host: str, container: str, daemon: Daemon, labels: Mapping[str, str] | None, *, is_shared: bool
) -> HostHandle:
    """Return the handle by which each controller finds a host, also one that makes its own hosts at another daemon.

    ``is_shared`` is True if it shares a network with others: a limitation, unless its labels say that it was to.
    """
    is_shared = is_shared and container_spec.DEFAULT_NETWORK not in (labels or {})
    data: dict[str, str | int | float] = {"container": container, "daemon": daemon.url}
    if user := (labels or {}).get(container_spec.USER):
        data["user"] = user
    told = [*([isolation.SHARED_NETWORK] if is_shared else []), *isolation.read(labels)]
    return HostHandle(host=host, data=data, given_up=tuple(dict.fromkeys(told)))  # labels of before said it, too


def is_on_default_network(row: Mapping[str, Any]) -> bool:
    """Return True if a container in a list has joined the default network; Podman's are created in theirs."""
    return container_spec.BRIDGE in ((row.get("NetworkSettings") or {}).get("Networks") or {})


def _format_exit(state: dict[str, Any]) -> str:
    if state.get("OOMKilled"):
        return "was killed by the system for lack of memory"
    error = f" ({state['Error']})" if state.get("Error") else ""
    return f"ended with exit code {state.get('ExitCode')}{error}"


def _is_ours(found: Mapping[str, Any], wish: Mapping[str, Any]) -> bool:
    """Return True if the object with our name also has our labels."""
    labels, whose = found.get("Labels") or {}, (container_spec.CLUSTER, container_spec.HOST, container_spec.OWNER)
    return all(labels.get(name) == wish["Labels"].get(name) for name in whose)

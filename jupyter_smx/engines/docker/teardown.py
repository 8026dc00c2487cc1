"""Remove the containers and networks of clusters, and record how each container ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from docker import errors

from jupyter_smx.engines.docker.containers import container_spec, probe_container
from jupyter_smx.engines.docker.containers.folders import network_lock_path
from jupyter_smx.engines.docker.daemon.daemon_client import CONFLICT, NOT_FOUND, DaemonError, remove
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.machine.cluster_folders import ClusterFolders

    _Spare = Callable[[Mapping[str, Any]], bool]

ALIVE = ("running", "paused")
_IN_USE = (403, 409)
"""Errors of Docker and Podman when a network with members is removed."""
_INSPECT_TIMEOUT = 3.0
"""Time limit in seconds for a daemon's answer about the end of a container."""
_RETRY_CURE = "Run the job again, or set --retries."
_MEMORY_CURE = "Use less memory, or a larger instance type."
_SIGKILL = 137
_KILL_COMMANDS = {_SIGKILL: "kill", 143: "stop"}
"""Exit codes of SIGKILL and SIGTERM, and by what people send these."""
_NOT_RESTORED = 255
"""Exit code that a daemon sets when it comes back and a container that ran has no processes any more."""


async def list_containers(daemon: Daemon, *labels: str) -> list[dict[str, Any]]:
    """List our containers with these labels, also those that ended.

    :raises UnavailableError: the daemon does not answer.
    """
    return [row for row in await daemon.containers(*labels) if container_spec.is_own_container(row)]


def _spare_none(_row: Mapping[str, Any]) -> bool:
    return False


def exit_reason(state: Mapping[str, Any], program: str = "docker", log_tail: str = "") -> str:
    """Describe how a container ended, from the daemon's report; "" if it ended by itself without an error. Pure.

    ``log_tail`` has the last lines of its agent, which are of use if that ended by itself.
    """
    code = int(state.get("ExitCode") or 0)
    # With version 2 of control groups the flag is that of any process in it, also of a job long before its end.
    if state.get("OOMKilled") and code == _SIGKILL:
        return "its container was killed, after the system killed processes in it for lack of memory. " + _MEMORY_CURE
    if code in _KILL_COMMANDS:
        # A job may end its agent, too: both have the same user, and the daemon does not distinguish them.
        by = f"by {program} {_KILL_COMMANDS[code]}, with its daemon, or by a process in it"
        return f"its container was ended from outside, {by}. {_RETRY_CURE}"
    if code == _NOT_RESTORED:
        return (
            f"its container ended with exit code {code}, as by a shutdown of the machine or of {program}. {_RETRY_CURE}"
        )
    words = f" Its log ends with: {log_tail}" if log_tail else ""
    return f"its container ended with exit code {code}.{words}" if code else ""


def removal_reason(program: str = "docker") -> str:
    """Describe the end of a host whose container its daemon no longer has, although it was not released."""
    return f"its container was removed from outside, as by {program} rm --force. {_RETRY_CURE}"


async def exit_reasons(
    daemon: Daemon, labels: Sequence[str], hosts: Collection[str], read_log_tail: Callable[[str], str]
) -> dict[str, str]:
    """Return for each host how its container ended, if it did; read before it is removed.

    ``hosts`` are those that had a container when no release had begun: one that has none now was removed from outside.
    ``read_log_tail`` gives the last lines of a host's agent, and may block.
    Each container is inspected, because the list may show a killed one as running for a moment.

    :raises UnavailableError: the daemon does not list its containers.
    """
    rows = await list_containers(daemon, *labels)
    seen = await asyncio.gather(*(_ended_state(daemon, row["Id"]) for row in rows))
    ended = {row["Labels"].get(container_spec.HOST, ""): state for row, state in zip(rows, seen, strict=True) if state}
    removed = set(hosts).difference(row["Labels"].get(container_spec.HOST, "") for row in rows)
    if ended or removed:
        with suppress(UnavailableError):
            await daemon.detect_kind()  # by what people end containers there
    program = daemon.kind.program
    tails = {host: await asyncio.to_thread(read_log_tail, host) for host in ended}
    return {
        **{host: removal_reason(program) for host in removed},
        **{host: exit_reason(state, program, tails[host]) for host, state in ended.items()},
    }


async def _ended_state(daemon: Daemon, container: str) -> dict[str, Any] | None:
    """Return the state of a container that has ended; None if it runs or cannot be inspected.

    Errors are ignored, because a message must not delay a release.
    """
    with suppress(UnavailableError, asyncio.TimeoutError):
        told = await asyncio.wait_for(daemon.inspect(container), _INSPECT_TIMEOUT)
        if told is not None and told["State"]["Status"] not in ALIVE:
            return dict(told["State"])
    return None


async def remove_cluster(
    daemon: Daemon, folders: ClusterFolders, cluster: str, labels: Sequence[str], seconds: float
) -> None:
    """Remove what a cluster has at its daemon, once nothing may begin there any more.

    :raises UnavailableError: the daemon is away, a container does not vanish, or the network is still being made.
    """
    await _remove_containers(daemon, labels, seconds)
    await _wait_network_made(folders, cluster, seconds)
    await _remove_networks(daemon, labels)


async def _wait_network_made(folders: ClusterFolders, cluster: str, seconds: float) -> None:
    """Wait until no task creates a network for a cluster any more.

    A daemon lists a network while it still creates it. Removing it then leaves half of one, which cannot be removed,
    and with which Docker 20.10 does not start again.
    """
    lock = network_lock_path(folders, cluster)
    still = f"The network of cluster {cluster} is still being made after {format_duration(seconds)}."
    rule = "An incomplete network cannot be removed."
    await _wait(lambda: asyncio.to_thread(_is_free, lock), seconds, still, rule)


async def _wait(is_over: Callable[[], Awaitable[bool]], seconds: float, still: str, rule: str) -> None:
    """Poll until something is over; ``still`` describes the state before, and ``rule`` the limit.

    :raises UnavailableError: it takes longer.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await is_over():
        if loop.time() > end:
            raise UnavailableError(
                still, rule=rule, cure="The controller repeats the release until it is gone.", transient=True
            )
        await asyncio.sleep(probe_container.POLL_INTERVAL)


def _is_free(lock: Path) -> bool:
    try:
        with file_lock.acquire(lock, lambda: True) as is_held:
            return is_held
    except OSError:
        return True  # without its folder nothing can be made either; and a disk that is away holds up no release


async def remove_all(daemon: Daemon, labels: Sequence[str], seconds: float, spare: _Spare) -> list[str]:
    """Remove the containers with these labels at once, then their networks; return the names of removed objects.

    :raises UnavailableError: the daemon does not answer, or one of them does not disappear.
    """
    return [
        *await _remove_containers(daemon, labels, seconds, spare),
        *await _remove_networks(daemon, labels, spare),
    ]


async def _remove_containers(
    daemon: Daemon, labels: Sequence[str], seconds: float, spare: _Spare = _spare_none
) -> list[str]:
    rows = [row for row in await list_containers(daemon, *labels) if not spare(row)]
    await asyncio.gather(*(_remove_container(daemon, row["Id"], seconds) for row in rows))
    return [row["Names"][0].lstrip("/") if row.get("Names") else row["Id"] for row in rows]


async def _remove_networks(daemon: Daemon, labels: Sequence[str], spare: _Spare = _spare_none) -> list[str]:
    networks = [row for row in await daemon.networks(*labels) if not spare(row)]
    for row in networks:
        await _remove_network(daemon, row["Id"])
    return [f"network {row['Name']}" for row in networks]


async def _remove_container(daemon: Daemon, container: str, seconds: float) -> None:
    try:
        await daemon.call(lambda api: remove(api, container), seconds)
    except DaemonError as problem:
        if problem.status == NOT_FOUND:
            return
        if problem.status != CONFLICT:
            raise daemon.operation_error(f"remove container {container[:12]}", problem) from problem
        await _wait_gone(daemon, container, seconds)  # another process is removing it


async def _wait_gone(daemon: Daemon, container: str, seconds: float) -> None:
    async def is_gone() -> bool:
        return await daemon.inspect(container) is None

    still = f"Container {container[:12]} still exists although it was removed."
    rule = "One of its processes waits for a device or a network disk."
    await _wait(is_gone, seconds, still, rule)


async def _remove_network(daemon: Daemon, network: str) -> None:
    try:
        await daemon.call(lambda api: _remove_with_members(api, network))
    except DaemonError as problem:
        if problem.status != NOT_FOUND:
            raise daemon.operation_error("remove a cluster's network", problem) from problem


def _remove_with_members(api: Any, network: str) -> None:
    """Remove a network; foreign containers in it are disconnected and keep running."""
    try:
        api.remove_network(network)
    except errors.APIError as problem:
        if problem.status_code not in _IN_USE:
            raise
        inside = api.inspect_network(network).get("Containers") or {}
        for guest in inside.values():
            with suppress(errors.NotFound):  # it has left by itself
                api.disconnect_container_from_network(guest["Name"], network, force=True)
        api.remove_network(network)

"""Observe hosts on this machine: which run, how each ended, and how to find it again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.system.files import host_layout, short_path
from jupyter_smx.agent.system.processes import process_table

SOCKET_LIMIT = 100
"""Bytes of a socket's path that every program can connect to."""
_LOG_TAIL = 4096
_LOG_LINES = 5

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName


def observe(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Observe the clusters in ``request``: ``{"hosts": {cluster: {host: state}}, "boot_id": …}``.

    A state has ``running`` (None: its agent may still start) and, where there is or was an agent, what
    :func:`jupyter_smx.agent.remote.launch.launch` gave, and ``stopped`` (by SIGSTOP). A released cluster has no hosts
    unless ``request`` has ``released``.
    """
    clusters = [str(cluster) for cluster in request["clusters"]]
    is_shown = {cluster: bool(request.get("released")) or not store.is_released(cluster) for cluster in clusters}
    hosts = {cluster: store.hosts(cluster) if is_shown[cluster] else [] for cluster in clusters}
    states = {cluster: {name.host: _state(store, name) for name in names} for cluster, names in hosts.items()}
    return {"hosts": states, "boot_id": process_table.boot_id()}


def _state(store: ClusterStore, name: HostName) -> Dict[str, Any]:
    agent = store.agent(name)
    if agent is None:
        return {"running": None if store.is_live(name) else False}
    found = {**agent._asdict(), "socket": socket_path(store, name)}
    devices = store.description(name).get("devices", [])
    return {"running": agent.is_alive(), "stopped": agent.is_stopped(), "devices": devices, **found}


def list_clusters(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """List what an owner has here: ``live`` clusters have a process or may get one, ``ended`` ones left files."""
    names = store.cluster_names(request["owner"])
    live = [name for name in names if not store.is_released(name) and any(map(store.is_live, store.hosts(name)))]
    return {"live": live, "ended": [name for name in names if name not in live]}


def socket_path(store: ClusterStore, name: HostName) -> str:
    """Return a path of a host's socket that every program can connect to: its own or, if too long, a short link."""
    folder = store.folder(name)
    if len(os.fsencode(folder.socket)) <= SOCKET_LIMIT:
        return folder.socket
    link = short_path.read_link(folder.root)
    return os.path.join(link, host_layout.SOCKET) if link else folder.socket


def log_tail(store: ClusterStore, name: HostName) -> str:
    """Return the last lines of a host's ``agent.log``, on one line."""
    try:
        with open(store.folder(name).path(host_layout.AGENT_LOG), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL))
            text = file.read(_LOG_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""
    return " | ".join([line.strip() for line in text.splitlines() if line.strip()][-_LOG_LINES:])

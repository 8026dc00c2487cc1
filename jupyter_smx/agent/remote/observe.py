"""Look at hosts on this machine: which run, how each ended, and what finds it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent.remote import launch
from jupyter_smx.agent.system.processes import process_table

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName


def observe(store: ClusterStore, asked: Dict[str, Any]) -> Dict[str, Any]:
    """Look at the clusters that ``asked`` names: ``{"hosts": {cluster: {host: state}}, "boot_id": …}``.

    A state has ``running`` (None: its agent may still start) and, where there is or was an agent, what
    :func:`jupyter_smx.agent.remote.launch.launch` gave. A released cluster, or one without a folder here, has no hosts.
    """
    clusters = [str(cluster) for cluster in asked["clusters"]]
    hosts = {cluster: [] if store.is_released(cluster) else store.hosts(cluster) for cluster in clusters}
    states = {cluster: {name.host: _state(store, name) for name in names} for cluster, names in hosts.items()}
    return {"hosts": states, "boot_id": process_table.boot_id()}


def _state(store: ClusterStore, name: HostName) -> Dict[str, Any]:
    agent = store.agent(name)
    if agent is None:
        return {"running": None if store.is_live(name) else False}
    found = {**agent._asdict(), "socket": launch.socket_path(store, name)}
    return {"running": agent.is_alive(), "devices": store.description(name).get("devices", []), **found}


def list_clusters(store: ClusterStore, asked: Dict[str, Any]) -> Dict[str, Any]:
    """List what an owner has here: ``live`` clusters have a process or may get one, ``ended`` ones left files."""
    names = store.cluster_names(asked["owner"])
    live = [name for name in names if not store.is_released(name) and any(map(store.is_live, store.hosts(name)))]
    return {"live": live, "ended": [name for name in names if name not in live]}

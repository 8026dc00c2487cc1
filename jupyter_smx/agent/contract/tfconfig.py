"""``TF_CONFIG``, which lists the peers of a script in SageMaker's TensorFlow images. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from jupyter_smx.agent.paths import PORT

if TYPE_CHECKING:
    from jupyter_smx.agent.paths import HostInfo

PARAMETER_SERVER, MIRRORED = STRATEGIES = ("parameter_server", "multi_worker_mirrored_strategy")
_MASTER, _WORKER, _SERVER = "master", "worker", "ps"
_WORKS, _SERVES, _MIRRORS = PORTS = (2222, 2223, 8890)
"""Ports of a worker, a parameter server, and a worker of the mirrored strategy."""


def port(wanted: int, host: str, host_info: HostInfo) -> int:
    """Return the port of a server of TensorFlow's on a host.

    It listens on all addresses of its machine, so hosts that share one cannot all have SageMaker's ports: each gets
    some of its own, counted from the port that the hosts have in common.
    """
    if host_info.port == PORT:
        return wanted
    return host_info.port + 1 + len(PORTS) * sorted(host_info.hosts).index(host) + PORTS.index(wanted)


def _host_address(wanted: int, hosts: List[str], host_info: HostInfo) -> List[str]:
    return [f"{host_info.address_of(host)}:{port(wanted, host, host_info)}" for host in hosts]


def cluster(hosts: List[str], host_info: HostInfo) -> Dict[str, List[str]]:
    """Return the roles with parameter servers: the first host leads, and each host has a server."""
    found = {_MASTER: _host_address(_WORKS, hosts[:1], host_info)}
    if len(hosts) > 1:
        found[_SERVER] = _host_address(_SERVES, hosts, host_info)
        found[_WORKER] = _host_address(_WORKS, hosts[1:], host_info)
    return found


def script_config(strategy: str, hosts: List[str], host_info: HostInfo) -> Dict[str, Any]:
    """Return ``TF_CONFIG`` for the script of this host."""
    number = hosts.index(host_info.host)
    who, task = cluster(hosts, host_info), {"index": max(number - 1, 0), "type": _WORKER if number else _MASTER}
    if strategy == MIRRORED:
        who, task = {_WORKER: _host_address(_MIRRORS, hosts, host_info)}, {"index": number, "type": _WORKER}
    return {"cluster": who, "environment": "cloud", "task": task}


def server_port(host_info: HostInfo) -> int:
    """Return the port of the parameter server of this host."""
    return port(_SERVES, host_info.host, host_info)


def leader_port(hosts: List[str], host_info: HostInfo) -> int:
    """Return the port at which the leading host listens while its script trains."""
    return port(_WORKS, hosts[0], host_info)

"""Loopback addresses of hosts on one machine: each host has its own, so that all can use the same ports.

An engine with hosts on other machines finds the address of each machine, and :func:`host_networks` computes the network
part of ``host.json``. It compares addresses, not names or ids of machines: three nodes of a test cluster may be one
machine, and two processes of one machine cannot both listen on its address at one port.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ADDRESSES_PER_BLOCK = 254
"""Addresses of one block: ``.0`` and ``.255`` would do, but programs take them for a network and its broadcast."""
_LOOPBACK = "127.0.0.1"
_FIRST_PORT, _PORTS = 10_000, 20_000


class MachineNetwork(Struct, frozen=True):
    """Address of a host's machine for the machines of the other hosts: IPv4 address, and interface if known."""

    address: str
    interface: str = ""


class HostNetwork(Struct, frozen=True):
    """Network part of ``host.json``: each host's address, the host's own interface, the cluster's port."""

    addresses: dict[str, str]
    interface: str
    port: int


def host_networks(
    cluster: str, machines: Mapping[str, MachineNetwork], platform: str = "linux"
) -> dict[str, HostNetwork]:
    """Decide how the hosts of a cluster reach each other; ``machines`` has each host's machine, in the job's order.

    Hosts of one address share a machine, so each has its own address of the loopback. Else each has the address of its
    machine. The port is never the 7777 of SageMaker, so servers of hosts with one address count on from it and differ.

    :raises ValueError: the address of one of several machines is not known.
    """
    found = {machine.address for machine in machines.values()}
    if len(found) > 1 and "" in found:
        unknown = [host for host, machine in machines.items() if not machine.address]
        raise ValueError(f"The addresses of {', '.join(unknown)} are not known, and those of other hosts are.")
    port = cluster_port(cluster)
    if len(found) <= 1:
        shared = addresses(cluster, [*machines], platform)
        return {host: HostNetwork(shared, "", port) for host in machines}
    own = {host: machine.address for host, machine in machines.items()}
    return {host: HostNetwork(own, machine.interface, port) for host, machine in machines.items()}


def addresses(cluster: str, hosts: Sequence[str], platform: str = sys.platform) -> dict[str, str]:
    """Return for each host an address that is always the same, and very likely not used by another cluster.

    Only Linux answers on the whole of 127.0.0.0/8; elsewhere all hosts share one address. 127.0.x.x is left to the
    system, which has resolvers there.
    """
    if not platform.startswith("linux"):
        return dict.fromkeys(hosts, _LOOPBACK)
    first, second = hashlib.sha256(cluster.encode()).digest()[:2]
    found = {}
    for index, host in enumerate(hosts):
        block, place = divmod(index, _ADDRESSES_PER_BLOCK)
        found[host] = f"127.{1 + first % _ADDRESSES_PER_BLOCK}.{(second + block) % 256}.{1 + place}"
    return found


def cluster_port(cluster: str) -> int:
    """Return the port on which the first host of a distributed job listens, most likely unused by other clusters.

    On SageMaker it is 7777. There each host has all ports; here PyTorch listens on all addresses of its machine, so the
    second of two simultaneous jobs would fail. The system itself assigns no ports below 32768.
    """
    return _FIRST_PORT + int.from_bytes(hashlib.sha256(cluster.encode()).digest()[2:4], "big") % _PORTS

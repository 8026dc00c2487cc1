"""Addresses of hosts that share one machine: each has its own on the loopback, so that equal ports do not meet."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADDRESSES_PER_BLOCK = 254
"""Addresses of one block: ``.0`` and ``.255`` would do, but programs take them for a network and its broadcast."""
_LOOPBACK = "127.0.0.1"
_FIRST_PORT, _PORTS = 10_000, 20_000


def addresses(cluster: str, hosts: Sequence[str], platform: str = sys.platform) -> dict[str, str]:
    """Give each host an address that is the same whoever asks, and most likely no other cluster's.

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
    """Give the port on which the first host of a distributed job listens, most likely no other cluster's.

    On SageMaker it is 7777. There each host has all ports; here PyTorch, which listens on all addresses of its machine,
    would refuse the second job of two that run at once. Below 32768 the system itself gives no ports away.
    """
    return _FIRST_PORT + int.from_bytes(hashlib.sha256(cluster.encode()).digest()[2:4], "big") % _PORTS

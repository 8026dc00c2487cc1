"""The interface that has an address, apart from what else a machine has: servers of jobs bind to it by its name."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from jupyter_smx.agent.paths import INTERFACE

_GET_ADDRESS = 0x8915
"""``SIOCGIFADDR`` of Linux."""
_NAME_BYTES = 16
_FIRST, _LAST = 20, 24
"""Position of the IPv4 address in the answer, a ``struct ifreq``."""


def find_interface(address: str) -> str:
    """Return the interface with an IPv4 address; if there is none, SageMaker's, or the loopback if that is missing."""
    found = _interface_with(address)
    return found or (INTERFACE if os.path.exists(f"/sys/class/net/{INTERFACE}") else "lo")


def _interface_with(address: str) -> str:
    try:
        own = socket.inet_aton(address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            return next((name for _, name in socket.if_nameindex() if _address_of(asked, name) == own), "")
    except OSError:
        return ""  # it is a name and no address


def _address_of(asked: socket.socket, name: str) -> bytes:
    request = struct.pack("256s", os.fsencode(name)[: _NAME_BYTES - 1])
    try:
        return fcntl.ioctl(asked.fileno(), _GET_ADDRESS, request)[_FIRST:_LAST]
    except OSError:
        return b""  # it has no address, or another system has another question

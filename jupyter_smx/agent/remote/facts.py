"""Describe this machine: Python, processors, memory, GPUs, disk, network address, limits, uv."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List

from jupyter_smx.agent.remote import records
from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.agent.system.resources import cgroup_limits, machine
from jupyter_smx.agent.telemetry import gpu

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore

_ARCHIVES = "archives"
_ANY_ADDRESS = ("192.0.2.1", 9)
"""An address that no machine has (RFC 5737), to find the main address by the route to it; nothing is sent."""


def facts(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Describe the machine.

    With ``usage_limit`` in ``request``, also how much room this account takes; its disk is read for so many seconds.
    """
    found = gpu.find()
    described = machine.describe(socket.gethostname(), 0, 0)
    os.makedirs(store.root, mode=0o700, exist_ok=True)
    disk = shutil.disk_usage(store.root)
    answer: Dict[str, Any] = {
        "host_name": described["hostname"],
        "platform": described["platform"],
        "cpus": described["cpus"],
        "memory": described["memory_bytes"],
        "gpus": [{"id": device.id, "name": device.name} for device in (found.devices if found else [])],
        "python": sys.executable,
        "python_version": ".".join(str(part) for part in sys.version_info[:3]),
        "uv": find_uv(),
        "address": main_address(),
        "boot_id": process_table.boot_id(),
        "root": store.root,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "limits": cgroup_limits.find_parents().description(),
        "hosts": len(store.live_hosts()),
    }
    return {**answer, **_usage(store.root, float(request["usage_limit"]))} if "usage_limit" in request else answer


def _usage(root: str, limit: float) -> Dict[str, Any]:
    """Count bytes by the name of the folder below the root; files of the root itself are archives of agents."""
    deadline = time.monotonic() + limit
    usage: Dict[str, int] = {}
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name)
        with contextlib.suppress(OSError):
            if os.path.isdir(path):
                usage[name] = records.disk_usage(path, deadline)
            elif name.startswith(records.ARCHIVE_PREFIX):
                usage[_ARCHIVES] = usage.get(_ARCHIVES, 0) + records.file_size(path)
    return {"usage": usage, "is_usage_partial": time.monotonic() > deadline}


def main_address() -> str:
    """Return the address by which other machines most likely reach this one, "" if it has no network."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(_ANY_ADDRESS)
        return str(probe.getsockname()[0])
    except OSError:
        return _first_address()
    finally:
        probe.close()


def _first_address() -> str:
    """Return the first address of an interface other than the loopback, for a network without a default route."""
    import fcntl  # noqa: PLC0415 - only here, and on Linux only
    import struct  # noqa: PLC0415

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
                address = socket.inet_ntoa(answer[20:24])
                if not address.startswith("127."):
                    return address
    return ""


def find_uv() -> str:
    """Find ``uv`` where its installers put it; "" where there is none."""
    folders: List[str] = [
        os.path.dirname(sys.executable),
        os.path.expanduser("~/.local/bin"),
        os.path.expanduser("~/.cargo/bin"),
    ]
    return shutil.which("uv") or shutil.which("uv", path=os.pathsep.join(folders)) or ""

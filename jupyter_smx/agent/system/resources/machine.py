"""Facts about the machine of this host, read from system files without starting a process."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from typing import Any, Dict, List

from jupyter_smx.agent.system.resources import memory

_CPU_NAMES = ("model name", "Model", "Hardware", "cpu model", "uarch")


def _lines(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65_536).splitlines()
    except OSError:
        return []


def _field(lines: List[str], *names: str) -> str:
    for wanted in names:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == wanted:
                return value.strip()
    return ""


def _memory() -> int:
    """Return the kernel's bytes of memory, 0 if it does not report them."""
    said = memory.machine_memory().get("MemTotal")
    if said:
        return said
    with contextlib.suppress(ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def _gpus() -> List[str]:
    """Name the GPUs that the driver lists here."""
    files = sorted(glob.glob("/proc/driver/nvidia/gpus/*/information"))
    return [name for name in (_field(_lines(path), "Model") for path in files) if name]


def platform() -> str:
    """Name the system as ``Linux 6.1.0 x86_64, glibc 2.36``."""
    system = os.uname()
    libc = ""
    with contextlib.suppress(ValueError, OSError, AttributeError):
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    return ", ".join(part for part in (f"{system.sysname} {system.release} {system.machine}", libc) if part)


def describe(name: str, vcpus: int, gpus: int) -> Dict[str, Any]:
    """Describe the machine of that name; ``vcpus`` and ``gpus`` are the share that this host has of it."""
    return {
        "hostname": name,
        "platform": platform(),
        "cpu_model": _field(_lines("/proc/cpuinfo"), *_CPU_NAMES),
        "cpus": os.cpu_count() or 0,
        "vcpus": vcpus,
        "memory_bytes": _memory(),
        "gpus": _gpus(),
        "gpu_count": gpus,
        "executable": sys.executable,
        "python": " ".join(sys.version.split()),
    }

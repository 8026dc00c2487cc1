"""Resources that this machine offers to jobs: CPUs, memory and GPUs, within the limits of this process."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ROOT = Path("/")
_NO_LIMIT = 1 << 60
"""Bytes; cgroup v1 writes a number near 2^63 where there is no limit."""


class MachineResources(Struct, frozen=True, kw_only=True):
    """CPUs (whole ones, at least 1), memory in bytes and GPUs (devices) that processes of this user can use."""

    cpus: int
    memory: int
    gpus: int

    def memory_gib(self) -> float:
        """Return the memory in GiB."""
        return self.memory / 2**30


def detect_machine(root: Path = _ROOT, environ: Mapping[str, str] = os.environ) -> MachineResources:
    """Look at this machine; takes about a millisecond, loads no driver and starts no process.

    ``root`` contains ``proc``, ``sys`` and ``dev``.
    """
    return MachineResources(
        cpus=usable_cpus(_affinity(), cpu_quotas(root)),
        memory=min([psutil.virtual_memory().total, *memory_limits(root)]),
        gpus=count_gpus(root, environ),
    )


def whole_machine() -> MachineResources:
    """Return the CPUs and the memory of the machine, without the limits of this process and without GPUs."""
    return MachineResources(cpus=os.cpu_count() or 1, memory=psutil.virtual_memory().total, gpus=0)


def usable_cpus(affinity: int, quotas: Iterable[float]) -> int:
    """Return the whole CPUs that a process may use at the same time; a part of a CPU counts as one; pure."""
    return max(1, min([affinity, *(math.ceil(quota - 0.01) for quota in quotas)]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def control_groups(root: Path, controller: str) -> list[Path]:
    """List the folders of the control groups that this process is in, and of all above them, versions 1 and 2.

    In a container the path that ``/proc`` names may not exist under ``/sys``; the group's own root counts then.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    mount = root / "sys/fs/cgroup"
    found: list[Path] = []
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        tops = [mount / names, mount / controller] if names else [mount, mount / "unified"]
        parts = [part for part in path.split("/") if part not in ("", "..")]
        found += [top.joinpath(*parts[:depth]) for top in tops for depth in range(len(parts) + 1)]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def cpu_quotas(root: Path = _ROOT) -> list[float]:
    """Return each limit on CPU time that applies, in CPUs."""
    found = []
    for folder in control_groups(root, "cpu"):
        words = _read(folder / "cpu.max").split()
        if not words:
            words = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
        if all(word.isdecimal() for word in words) and int(words[1]) > 0:
            found.append(int(words[0]) / int(words[1]))
    return found


def memory_limits(root: Path = _ROOT) -> list[int]:
    """Return each limit on memory that applies, in bytes."""
    words = (
        _read(folder / name)
        for folder in control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    )
    return [int(word) for word in words if word.isdecimal() and 0 < int(word) < _NO_LIMIT]


def count_gpus(root: Path = _ROOT, environ: Mapping[str, str] = os.environ) -> int:
    """Count the GPUs that the environment leaves visible, from device files: no driver's library is loaded."""
    nvidia = sum(1 for name in _names(root / "dev") if re.fullmatch(r"nvidia\d+", name))
    amd = sum(1 for folder in _names(root / "sys/class/kfd/kfd/topology/nodes") if _is_amd_gpu(root, folder))
    return _count_visible(nvidia, environ.get("CUDA_VISIBLE_DEVICES")) + _count_visible(
        amd, environ.get("HIP_VISIBLE_DEVICES")
    )


def _count_visible(present: int, wish: str | None) -> int:
    """Apply a ``…_VISIBLE_DEVICES``: the first name that is no device ends the list, as CUDA does; pure."""
    if wish is None:
        return present
    count = 0
    for word in wish.split(","):
        name = word.strip()
        if not name or (re.fullmatch(r"-?\d+", name) and not 0 <= int(name) < present):
            break
        count += 1
    return min(count, present)


def _is_amd_gpu(root: Path, node: str) -> bool:
    return _read(root / "sys/class/kfd/kfd/topology/nodes" / node / "gpu_id") not in ("", "0")


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

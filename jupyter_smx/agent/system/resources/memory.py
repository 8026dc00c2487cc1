"""Memory of a job: its limit, its use, and whether the system killed a process to free memory."""

from __future__ import annotations

import itertools
import os
import re
import resource
from typing import Dict, List, Optional, Tuple

from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import cgroups

_ROW = re.compile(r"^([^:\n]+): +(\d+) kB$", re.MULTILINE)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_NO_LIMIT = 1 << 60
"""Bytes; version 1 of control groups writes a number near 2^63 where there is no limit."""

_FEW = 4
"""A process that had less than this part of what there is has not filled it alone."""


def format_size(count: float) -> str:
    """Write a number of bytes for people."""
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _STEP
    return f"{count:.1f} {_UNITS[-1]}"


def _groups(root: str) -> List[str]:
    """Return the folders of memory control groups: of this host's jobs, this process's own, then their parents."""
    joined = cgroups.current().groups.get("memory")
    found: List[str] = [joined] if joined else []
    mount = os.path.join(root, "sys/fs/cgroup")
    for line in process.read_file(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):
            top = os.path.join(mount, "memory")
        elif number == "0" and not kinds:
            top = mount
        else:
            continue
        folder = os.path.normpath(top + path)
        # A container may see its own group as the root, whatever path /proc shows.
        while folder.startswith(top) and len(folder) >= len(top):
            found.append(folder)
            folder = os.path.dirname(folder)
        found += [top] if top not in found else []
    return found


def machine_memory(root: str = "/") -> Dict[str, int]:
    """Return the kernel's figures of the whole machine in bytes, by its names: MemTotal, MemAvailable, …."""
    rows = _ROW.findall(process.read_file(os.path.join(root, "proc/meminfo")))
    return {name: int(count) * _STEP for name, count in rows}


def limit(root: str = "/") -> Tuple[int, str]:
    """Return the limit of memory in bytes, 0 if there is none, and the owner of the limit."""
    found = []
    for folder in _groups(root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = process.read_file(os.path.join(folder, name)).strip()
            if text.isdecimal() and int(text) < _NO_LIMIT:
                found.append((int(text), _limit_owner(folder, int(text))))
    whole = machine_memory(root).get("MemTotal")
    found += [(whole, "the memory of this machine")] if whole else []
    return min(found, default=(0, ""))


def _limit_owner(folder: str, most: int) -> str:
    ours = cgroups.current()
    is_whole = "memory" in ours.whole and most == ours.memory
    if folder != ours.groups.get("memory") and not is_whole:
        return "the limit of its control group"
    return f"the limit of instance type {ours.of}"


class OomCounter:
    """Counts OOM kills: in the groups of the jobs and of this process, or else on the whole machine.

    Each kill counts in the group of the process. An operator may have moved all processes of a host into another group.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._files: List[str] = []

    def find(self) -> int:
        """Find the files that have the counts, and give their sum. To read them again takes a third of the time."""
        known = (found for found in map(_find_kills, _groups(self._root)) if found)
        found = list(itertools.islice(known, 1 + ("memory" in cgroups.current().groups)))
        self._files = [path for path, _count in found]
        return sum(count for _path, count in found) if found else self.read()

    def read(self) -> int:
        """Return the sum of the counts in the files that :meth:`find` found."""
        paths = self._files or [os.path.join(self._root, "proc/vmstat")]
        return sum(_read_kills(path) or 0 for path in paths)


def _find_kills(folder: str) -> Optional[Tuple[str, int]]:
    for name in ("memory.events.local", "memory.events", "memory.oom_control"):
        path = os.path.join(folder, name)
        count = _read_kills(path)
        if count is not None:
            return path, count
    return None


def _read_kills(path: str) -> Optional[int]:
    return _pairs(process.read_file(path)).get("oom_kill")


def _pairs(text: str) -> Dict[str, int]:
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}  # noqa: PLR2004 - a pair


def _bound(root: str) -> str:
    most, whose = limit(root)
    return f"{format_size(most)} is {whose}" if most else "the limit is unknown"


def format_oom_kill(peak: int, root: str = "/") -> str:
    """Return the message for an OOM kill of a job; ``peak`` is its process's peak memory, 0 if unknown."""
    had = f"its process had {format_size(peak)}" if peak else "its memory use is unknown"
    if peak and peak < limit(root)[0] // _FEW:
        had += ", processes that it started and files in memory (/dev/shm) the rest"
    return (
        f"The system killed the job for lack of memory: {had}, and {_bound(root)}. Use less memory, or a larger "
        "instance type."
    )


def format_other_oom_kills(count: int, root: str = "/") -> str:
    """Return the message for OOM kills of other processes of a job that continued."""
    processes = "1 process" if count == 1 else f"{count} processes"
    return f"host: while the job ran the system ended {processes} for lack of memory; {_bound(root)}."


def format_own_memory(root: str = "/") -> str:
    """Return the memory of this process and its limit, for a message about a refused allocation."""
    had = format_size(process.peak_memory(resource.getrusage(resource.RUSAGE_SELF)))
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    bound = _bound(root)
    if allowed != resource.RLIM_INFINITY:
        bound = f"{format_size(allowed)} of addresses is its own limit (RLIMIT_AS)"
    return f"Its process had {had} of memory, and {bound}."

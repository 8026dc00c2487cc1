"""Resource use of a process tree, read from ``/proc``; unreadable values are None, never zero."""

from __future__ import annotations

import operator
import os
import time
from typing import Dict, Optional, Sequence, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHARE_COST = 500.0
"""Seconds until shares are counted again, for each second that counting them took."""
_SHARE_LIMIT = 0.05
"""Seconds that counting may take at once, for the loop stands still meanwhile: some 4 GiB."""
_SHARE_SPEED = 5e10
"""Bytes in a second, before it was measured here; small pages go by at 1e11."""
_LARGE = 1 << 28
"""Bytes of a process by which the speed is measured."""

Key = Tuple[int, int]
"""A process: its pid, and its start time, which distinguishes processes with the same pid."""


class ProcessSample(NamedTuple):
    """One process at one moment. Counters include the children that it has reaped."""

    parent: int
    cpu: float
    resident: int
    shared: int
    read: Optional[int]
    written: Optional[int]


class TreeUsage(NamedTuple):
    """A tree: seconds of CPU and bytes to and from disks since the job began, bytes of memory now."""

    cpu: float
    memory: int
    read: Optional[int]
    written: Optional[int]
    pids: Tuple[int, ...]


def _read_field(text: str, name: str) -> Optional[int]:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return None


def read_process(pid: int) -> Optional[Tuple[Key, ProcessSample]]:
    """Read one process; None if it is gone."""
    stat = process.read_stat(pid)
    pages = process.read_file(f"/proc/{pid}/statm").split()
    if len(stat) < 22 or len(pages) < 3:  # noqa: PLR2004 - the fields of stat(5) and statm that are read
        return None
    moved = process.read_file(f"/proc/{pid}/io")
    seen = ProcessSample(
        parent=int(stat[1]),
        cpu=process.parse_cpu_seconds(stat),
        resident=int(pages[1]) * _PAGE,
        shared=int(pages[2]) * _PAGE,
        read=_read_field(moved, "read_bytes:"),
        written=_read_field(moved, "write_bytes:"),
    )
    return (pid, int(stat[19])), seen


class ProcessTree:
    """Follows the processes of one job.

    Ended processes still count: the system adds a child that was waited for to its parent. For other children, the last
    sample or the report of their collector is kept here. ``base`` are the CPU seconds of its own process before the
    job.
    """

    def __init__(self, base: float = 0.0) -> None:
        self._root = 0
        self._of_root = 0.0
        self._last: Dict[Key, ProcessSample] = {}
        self._exited_usage = [0.0, 0, 0]
        self._most = [0.0, 0, 0]
        self._base = [base, 0, 0]
        self._shares = SharedMemory()

    def measure(self, roots: Sequence[int]) -> TreeUsage:
        """Measure all descendants of ``roots``, the job's own process first."""
        self._root, *_strangers = roots
        now = dict(found for found in map(read_process, process.tree(roots)) if found is not None)
        for key, seen in now.items():
            before = self._last.get(key)
            if seen.read is None and before is not None:  # a process that ends is not readable any more
                now[key] = seen._replace(read=before.read, written=before.written)
        self._record_exited(now)
        self._last = now
        sums = [
            self._exited_usage[0] + sum(seen.cpu for seen in now.values()),
            self._exited_usage[1] + sum(seen.read or 0 for seen in now.values()),
            self._exited_usage[2] + sum(seen.written or 0 for seen in now.values()),
        ]
        # A parent that ignores SIGCHLD takes what its child used out of every sum: counters never run back.
        self._most = list(map(max, self._most, sums))
        cpu, read, written = map(operator.sub, self._most, self._base)
        moves = any(seen.read is not None for seen in now.values())
        return TreeUsage(
            cpu=cpu,
            memory=self._shares.memory(now),
            read=int(read) if moves else None,
            written=int(written) if moves else None,
            pids=tuple(pid for pid, _began in now),
        )

    def add_orphan(self, pid: int, cpu: float) -> None:
        """Add the CPU seconds of an orphan that exited; it may have started and exited between two samples."""
        known = [key for key in self._last if key[0] == pid]
        for key in known:
            self._last[key] = self._last[key]._replace(cpu=max(cpu, self._last[key].cpu))
        if not known:
            self._exited_usage[0] += cpu

    def finish(self, cpu: float) -> float:
        """Add the CPU seconds of the job's own process at its exit; return those of the whole tree."""
        known = [key for key in self._last if key[0] == self._root]
        for key in known:
            self._last[key] = self._last[key]._replace(cpu=max(cpu, self._last[key].cpu))
        if not known:  # it had exited before the last sample
            self._exited_usage[0] += max(0.0, cpu - self._of_root)
        self._most[0] = max(self._most[0], self._exited_usage[0] + sum(seen.cpu for seen in self._last.values()))
        return self._most[0] - self._base[0]

    def _record_exited(self, now: Dict[Key, ProcessSample]) -> None:
        """Remember what processes used that ended and that no process of the tree can have waited for."""
        began = {pid: key for key in self._last for pid in key[:1]}
        for key, seen in self._last.items():
            if key in now:
                continue
            parent = began.get(seen.parent)
            while parent is not None and parent not in now:
                parent = began.get(self._last[parent].parent)
            if parent is None:
                self._of_root += seen.cpu if key[0] == self._root else 0.0
                self._exited_usage[0] += seen.cpu
                self._exited_usage[1] += seen.read or 0
                self._exited_usage[2] += seen.written or 0


class SharedMemory:
    """Counts the memory of a tree without counting twice what its processes share.

    The kernel's own answer (``Pss``) walks all pages of a process, so it is asked rarely, and for as many processes at
    once as time allows; in between the resident pages are scaled by what the last answer was of them. A process that
    was not asked for is taken to share as much as one of the same parent.
    """

    def __init__(self) -> None:
        self._parts: Dict[Key, float] = {}
        self._speed = _SHARE_SPEED
        self._next = 0.0

    def memory(self, seen: Dict[Key, ProcessSample]) -> int:
        """Return the bytes of memory of these processes."""
        if len(seen) == 1:
            return sum(one.resident for one in seen.values())
        self._parts = {key: part for key, part in self._parts.items() if key in seen}
        if time.monotonic() >= self._next:
            self._refresh(seen)
        like: Dict[int, float] = {}
        for key, part in self._parts.items():
            like[seen[key].parent] = min(part, like.get(seen[key].parent, 1.0))
        return int(sum(one.resident * self._parts.get(key, like.get(one.parent, 1.0)) for key, one in seen.items()))

    def _refresh(self, seen: Dict[Key, ProcessSample]) -> None:
        """Read processes without an answer first, then those with the oldest one."""
        began = time.perf_counter()
        order = list(self._parts)
        waiting = [key for key in seen if key not in self._parts] + order
        for key in waiting:
            before = time.perf_counter()
            if before - began + seen[key].resident / self._speed > _SHARE_LIMIT:
                continue
            text = process.read_file(f"/proc/{key[0]}/smaps_rollup")
            resident, share = _read_field(text, "Rss:"), _read_field(text, "Pss:")
            self._parts.pop(key, None)  # so that it stands last the next time
            if resident and share is not None:
                self._parts[key] = min(1.0, share / resident)
                if seen[key].resident > _LARGE:
                    self._speed = seen[key].resident / (time.perf_counter() - before)
        self._next = time.monotonic() + _SHARE_COST * (time.perf_counter() - began)


def network() -> Optional[Tuple[int, int]]:
    """Count the bytes that this network namespace received and sent since it is there, without ``lo``."""
    rows = [line.rpartition(":") for line in process.read_file("/proc/net/dev").splitlines() if ":" in line]
    counts = [row[2].split() for row in rows if row[0].strip() != "lo"]
    if not rows:
        return None
    return sum(int(count[0]) for count in counts), sum(int(count[8]) for count in counts)


def disk(path: str) -> Optional[Tuple[int, int]]:
    """Return the used bytes and the size of the file system of ``path``."""
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    return (room.f_blocks - room.f_bfree) * room.f_frsize, room.f_blocks * room.f_frsize

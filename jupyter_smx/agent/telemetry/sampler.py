"""Sample the resource use of a running job: write to disk, then send; at most 0.5 % of a core.

The file ``samples`` in the job's folder is only ever appended to. Its first line is an object that says what holds
for all of them; each line after it is one sample, an array in the order of :data:`COLUMNS`. Counters count from the
job's start, so that a line may be left out without a loss: after each :data:`STRIDE_LINES` lines every second one is.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent.system.files import host_layout, safe_open
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.resources import cgroups, memory
from jupyter_smx.agent.telemetry import gpu, proc_usage

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer

COLUMNS = ("at", "cpu", "memory", "read", "written", "disk", "received", "sent", "gpus")
STRIDE_LINES = 1024
"""Lines after which samples are kept half as often: a month of one job is 12 000 lines."""
INTERVAL = 1.0
"""Seconds between two samples."""
FIRST_DELAY = 0.02
"""Seconds from the start to the first sample, so that the beginning of the job is not slowed down."""
SECOND_DELAY = 0.25
"""Seconds until the next one, so that short jobs have a percentage."""
PAUSE_FACTOR = 200.0
"""Seconds of pause for each second of computing: half a percent of a core."""
MIN_INTERVAL = 0.2
"""Seconds; for shorter times a clock of 100 Hz is too coarse for percentages."""
_SCOPE = "Network and disk values are for the whole host, including other processes."


class Sampler:
    """Samples one job. ``tell(newest figures)`` is called after each sample, when it is on disk."""

    def __init__(
        self,
        loop: Loop,
        folder: str,
        ml: str,
        roots: Callable[[], List[int]],
        tell: Callable[[Dict[str, float]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._path = os.path.join(folder, host_layout.SAMPLES)
        self._ml = ml
        self._roots = roots
        self._on_sample = tell
        self._clock = clock
        self._tree: Optional[proc_usage.ProcessTree] = None
        self._network: Optional[Tuple[int, int]] = None
        self._timer: Optional[Timer] = None
        self._usage: Optional[proc_usage.TreeUsage] = None
        self._last_at = self._last_cpu = 0.0
        self._samples = self._lines = 0
        self._stride = 1
        self._memory = 0
        self._gpus: List[List[gpu.GpuUsage]] = []
        self._sent_notes = 0
        self._has_partial_line = False
        self.peak: Dict[str, float] = {}
        """The highest figures so far; a figure that was never measured is not in it."""

    def start(self, pid: int) -> None:
        """Begin when the job is sent to process ``pid``; without ``/proc`` nothing is measured."""
        if process.LINUX:
            self._tree = proc_usage.ProcessTree(process.cpu_seconds(pid))
            self._loop.on_orphan_exit = self._tree.add_orphan
            self._timer = self._loop.later(FIRST_DELAY, self._take_first)

    def finish(self) -> None:
        """Take the last sample. The end of the job waits for it, so it searches for nothing new. Idempotent.

        A job that ends before its first sample has a peak and no history.
        """
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if self._usage is None:
            self._measure_peak()
        else:
            self._sample(last=True)

    def close(self, cpu: float) -> None:
        """Write the final CPU time when the job's process has exited; ``cpu`` are its CPU seconds (0: unknown)."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._tree is not None and self.peak:
            whole = self._tree.finish(cpu)
            if self._usage is not None and whole > self._usage.cpu:
                self._keep(self._usage._replace(cpu=whole, memory=0), last=True)
            self.peak["cpu_seconds"] = max(self.peak["cpu_seconds"], round(whole, 2))
        self._loop.on_orphan_exit = None
        self._tree = self._usage = None
        self._roots, self._on_sample = list, lambda _peak: None  # so that nothing here holds the job that is over

    def _measure_peak(self) -> None:
        roots = self._roots()
        found = self._tree.measure(roots) if roots and self._tree is not None else None
        if found is not None and found.pids:
            self.peak["cpu_seconds"] = round(found.cpu, 2)
            if found.memory:
                self.peak["memory_bytes"] = found.memory

    def _take_first(self) -> None:
        self._sample()
        self._timer = self._loop.later(SECOND_DELAY, self._take_next)

    def _head(self) -> None:
        self._network = proc_usage.network()
        disk = proc_usage.disk(self._ml)
        most = memory.limit()[0]
        mine = cgroups.current()
        cpus = mine.cpus if mine.is_bound("cpu") else len(os.sched_getaffinity(0))
        head: Dict[str, Any] = {"version": 1, "columns": COLUMNS, "cpus": cpus, "note": _SCOPE}
        head.update({"memory": most} if most else {}, **({"disk": disk[1]} if disk else {}))
        self._append(json.dumps(head))
        if mine.note():
            self._append(json.dumps({"note": mine.note()}))

    def _take_next(self) -> None:
        gpu.find()  # once for all jobs of this host, so it is no cost of a look, after which a pause would follow
        began = time.thread_time()
        self._sample()
        self._timer = self._loop.later(max(INTERVAL, PAUSE_FACTOR * (time.thread_time() - began)), self._take_next)

    def _sample(self, *, last: bool = False) -> None:
        roots = self._roots()
        if not roots or self._tree is None:
            return
        moment = time.monotonic()
        found = self._tree.measure(roots)
        if not found.pids:
            return  # it has exited already; the process that reaps it has its last figures
        if self._usage is None:
            self._head()
        self._usage = found
        now: Dict[str, float] = {}
        passed = moment - (self._last_at or moment)
        if passed >= MIN_INTERVAL:
            percent = 100 * (found.cpu - self._last_cpu) / passed
            now["cpu_percent"] = round(min(percent, 100.0 * (os.cpu_count() or 1)), 1)  # a late look sees too much
        if passed >= MIN_INTERVAL or not self._last_at:
            self._last_at, self._last_cpu = moment, found.cpu
        if found.memory:  # a process that is ending has given its memory back already
            now["memory_bytes"] = found.memory
        if passed:  # the driver may take a while to be found, and at its very beginning a job uses no GPU
            now.update(self._sample_gpus(gpu.found_gpus() if last else gpu.find(), found.pids))
        for name, value in now.items():
            self.peak[name] = max(value, self.peak.get(name, 0.0))
        self.peak["cpu_seconds"] = round(found.cpu, 2)
        self._keep(found, last=last)
        self._on_sample(dict(now, at=round(self._clock(), 3)))

    def _sample_gpus(self, gpus: Optional[gpu.Gpus], pids: Tuple[int, ...]) -> Dict[str, float]:
        if gpus is None:
            return {}
        if not self._sent_notes:
            self._append(json.dumps({"gpus": gpus.describe()}))
        figures = gpus.measure(pids)
        for sentence in list(gpus.notes)[max(0, self._sent_notes - 1) :]:
            self._append(json.dumps({"note": sentence}))
        self._sent_notes = len(gpus.notes) + 1
        self._gpus.append(figures)
        percents = [percent for percent, _memory in figures if percent is not None]
        memories = [memory for _percent, memory in figures if memory is not None]
        found = {"gpu_percent": sum(percents)} if percents else {}
        return dict(found, **({"gpu_memory_bytes": sum(memories)} if memories else {}))

    def _keep(self, found: proc_usage.TreeUsage, *, last: bool) -> None:
        """Write one line for ``stride`` samples, with the most memory that there was in them."""
        self._memory = max(self._memory, found.memory)
        self._samples += 1
        if (self._samples - 1) % self._stride and not last:
            return
        disk, network = proc_usage.disk(self._ml), proc_usage.network()
        moved: List[Optional[int]] = [None, None]
        if network is not None and self._network is not None:
            moved = [max(0, network[0] - self._network[0]), max(0, network[1] - self._network[1])]
        row = [round(self._clock(), 3), round(found.cpu, 2), self._memory or None, found.read, found.written]
        self._append(
            json.dumps([*row, disk[0] if disk else None, *moved, _merge_gpu_samples(self._gpus)], separators=(",", ":"))
        )
        self._memory, self._gpus = 0, []
        self._lines += 1
        if self._lines % STRIDE_LINES == 0:
            self._stride *= 2

    def _append(self, text: str) -> None:
        # What a full disk took half of is closed by a line's end, and readers skip it.
        line = ("\n" if self._has_partial_line else "") + text + "\n"
        self._has_partial_line = True
        with contextlib.suppress(OSError), safe_open.open_to_append(self._path) as file:
            self._has_partial_line = os.write(file.fileno(), line.encode()) < len(line)


def _merge_gpu_samples(looks: List[List[gpu.GpuUsage]]) -> Optional[List[List[Optional[float]]]]:
    """Return for each GPU the mean of its percentages and the maximum of its memory over several samples."""
    rows: List[List[Optional[float]]] = []
    for one in zip(*looks):
        percents = [percent for percent, _memory in one if percent is not None]
        memories = [memory for _percent, memory in one if memory is not None]
        rows.append([round(sum(percents) / len(percents), 1) if percents else None, max(memories, default=None)])
    return rows or None

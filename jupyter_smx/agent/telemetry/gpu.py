"""Measure the use of NVIDIA GPUs by a job's processes, through the driver's library (NVML).

``pynvml`` (nvidia-ml-py) is one file of Python that travels with the agent; it is loaded where there is a driver only.
What the driver does not report is None, and a note says why, once. In a container the driver has the pids of the
machine, or none (NVIDIA/nvidia-docker#1483), so each GPU is measured as a whole there.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from functools import lru_cache
from typing import Any, Callable, Collection, Dict, List, Optional, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

_DRIVER = "libnvidia-ml.so.1"
_ALL = 100.0
_CONTAINER_NOTE = (
    "gpu: in a container the driver does not assign processes to containers, so values are for whole GPUs."
)

GpuUsage = Tuple[Optional[float], Optional[int]]
"""Percent of a GPU, and bytes of its memory."""


class Device(NamedTuple):
    """A GPU, or a part of one that MIG made; ``id`` is its UUID."""

    id: str
    name: str
    memory: Optional[int]
    handle: Any
    is_part: bool


class Gpus:
    """The GPUs that this host sees; ``nvml`` is the module ``pynvml``.

    Of ``whole`` GPUs the use by all processes is measured; if a job has them to itself, that is the job's use.

    :raises Exception: of ``pynvml``, if the driver does not answer at all.
    """

    def __init__(self, nvml: Any, *, whole: bool = False) -> None:
        self._nvml = nvml
        self._whole = whole
        self._refusals = (nvml.NVMLError, nvml.NVMLLibraryMismatchError)
        self._last_timestamps: Dict[str, int] = {}
        self._lost_ids: Dict[str, None] = {}
        self.notes: Dict[str, None] = {}
        """Sentences about what cannot be measured, each once."""
        nvml.nvmlInit()
        self.devices: List[Device] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            with contextlib.suppress(*self._refusals):  # a GPU that is lost is not there
                self._find(nvml.nvmlDeviceGetHandleByIndex(index))
        if whole and self.devices:
            self._note(_CONTAINER_NOTE)

    def _find(self, handle: Any) -> None:
        parts = []
        if (self._query(self._nvml.nvmlDeviceGetMigMode, handle) or [0])[0]:
            for index in range(self._query(self._nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
                with contextlib.suppress(*self._refusals):  # not every place holds a part
                    parts.append(self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
            self._note("gpu: for a MIG partition the driver reports the memory of a process, but no utilisation.")
        for one in parts or [handle]:
            room = self._query_memory(one)
            name = _text(self._query(self._nvml.nvmlDeviceGetName, one) or "")
            memory = None if room is None else int(room.total)
            self.devices.append(Device(_text(self._nvml.nvmlDeviceGetUUID(one)), name, memory, one, bool(parts)))

    def describe(self) -> List[Dict[str, Any]]:
        """Return the descriptions for the file of samples."""
        return [{"id": one.id, "name": one.name, "memory": one.memory} for one in self.devices]

    def measure(self, pids: Collection[int]) -> List[GpuUsage]:
        """Return for each GPU its use by these processes; for whole GPUs, by all processes."""
        return [(None, None) if one.id in self._lost_ids else self._measure_one(one, pids) for one in self.devices]

    def _measure_one(self, device: Device, pids: Collection[int]) -> GpuUsage:
        if self._whole:
            rates = None if device.is_part else self._query_versions(device, self._nvml.nvmlDeviceGetUtilizationRates)
            room = None if device.id in self._lost_ids else self._query_memory(device.handle)
            return (None if rates is None else float(rates.gpu)), (None if room is None else int(room.used))
        running = self._running(device)
        if running is None:
            return None, None
        used = [one.usedGpuMemory for one in running if one.pid in pids]
        memory = None if None in used else sum(used)
        return (None if device.is_part else self._percent(device, pids)), memory

    def _running(self, device: Device) -> Optional[List[Any]]:
        found: Dict[int, Any] = {}
        for kind in ("Graphics", "Compute"):
            ask = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses")
            older = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_v2")
            answer = self._query_versions(device, ask, older)
            if answer is None and kind == "Compute":
                return None
            found.update((one.pid, one) for one in answer or [])
        return list(found.values())

    def _percent(self, device: Device, pids: Collection[int]) -> Optional[float]:
        since = self._last_timestamps.get(device.id, 0)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(device.handle, since)
        except self._nvml.NVMLError_NotFound:
            return 0.0  # no process computed since then
        except self._refusals as error:
            self._on_error(device, error)
            return None
        self._last_timestamps[device.id] = max([since, *(one.timeStamp for one in samples)])
        # Some drivers answer nonsense for processes that have ended.
        ours = [one for one in samples if one.pid in pids and one.smUtil <= _ALL]
        newest = {one.pid: one.smUtil for one in sorted(ours, key=lambda one: int(one.timeStamp))}
        return min(_ALL, float(sum(newest.values())))

    def _query_versions(self, device: Device, *ways: Callable[[Any], Any]) -> Any:
        """Try one version of a query after the other: a driver may be older than the module."""
        ask, *others = ways
        try:
            return ask(device.handle)
        except self._nvml.NVMLLibraryMismatchError as error:
            if others:
                return self._query_versions(device, *others)
            self._on_error(device, error)
        except self._refusals as error:
            self._on_error(device, error)
        return None

    def _on_error(self, device: Device, error: Exception) -> None:
        gone = ("GpuIsLost", "Uninitialized", "DriverNotLoaded", "Unknown")
        if isinstance(error, tuple(getattr(self._nvml, f"NVMLError_{name}") for name in gone)):
            self._lost_ids[device.id] = None
        self._note(f"gpu: {device.name or device.id} does not report the use of processes ({error}).")

    def _query(self, ask: Callable[..., Any], *words: Any) -> Any:
        """Query a figure that not every GPU has."""
        try:
            return ask(*words)
        except self._refusals:
            return None

    def _query_memory(self, handle: Any) -> Any:
        """Query the memory; only the first version's answer counts the driver's own memory as used."""
        ask = self._nvml.nvmlDeviceGetMemoryInfo
        return self._query(ask, handle, self._nvml.nvmlMemory_v2) or self._query(ask, handle)

    def _note(self, sentence: str) -> None:
        self.notes.setdefault(sentence)


def _text(said: Any) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _nvml() -> Any:
    """Load ``pynvml``, a third of a megabyte that few hosts need: the agent's own copy, or an installed one.

    :raises ImportError: there is none.
    """
    try:
        return importlib.import_module("jupyter_smx.agent.pynvml")
    except ImportError:
        return importlib.import_module("pynvml")


@lru_cache(maxsize=None)
def find() -> Optional[Gpus]:
    """Find the GPUs, once; None without a driver, without a module for it, or if no GPU answers."""
    if not process.LINUX:
        return None
    try:
        ctypes.CDLL(_DRIVER)
        nvml = _nvml()
    except (OSError, ImportError):
        return None
    try:
        found = Gpus(nvml, whole=not process.has_machine_pids())
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError):
        return None
    return found if found.devices else None


def found_gpus() -> Optional[Gpus]:
    """Return the GPUs that :func:`find` found before; do not search: a driver's first answer may take seconds."""
    return find() if find.cache_info().currsize else None

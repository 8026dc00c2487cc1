"""Test whether a process that has imported modules can still be forked safely."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import select
import signal
import sys
import time
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from jupyter_smx.agent.code import import_effects, imports
from jupyter_smx.agent.code.environ import reads as environ_reads
from jupyter_smx.agent.system.interpreter import accelerators, clocks, random_generators
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process, threads

# Native threads that are known to survive a fork of their process.
_HARMLESS_THREADS = ("jemalloc_bg_thd",)
# What numpy would import at its first use, in every child again.
_COMPANIONS: Dict[str, Tuple[str, ...]] = {"numpy": ("numpy.random",)}
PATIENCE = 5.0
"""Seconds that a forked child may take for one small computation."""
_MIB = 1 << 20
_USER_FILES_REASON = "it is one of your own files, which may change before the next job"


class ImportResult(NamedTuple):
    """The result of an import: loaded modules, reasons for failed ones, and the module after which forks are unsafe.

    ``costs`` has for each loaded module the ``seconds`` and ``bytes`` of private memory that it took in addition to
    earlier modules, and which of those it ``needs``.
    """

    loaded: List[str]
    failed: Dict[str, str]
    costs: Dict[str, Dict[str, Any]]
    unfit_module: str = ""


def task_count() -> int:
    """Count the threads of this process, native ones included; 0 where it cannot be known."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _thread_names() -> List[str]:
    names = []
    try:
        for task in os.listdir("/proc/self/task"):
            if int(task) != os.getpid():
                with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                    names.append(file.read().strip())
    except OSError:
        return names
    return names


def _sockets() -> int:
    count = 0
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


class _Before(NamedTuple):
    """What this process had open before the imports."""

    sockets: int
    devices: FrozenSet[str]


def unfit_reason(before: _Before) -> str:
    """Return why this process must not be forked any more, '' if it may be."""
    return (
        _thread_reason()
        or ("its import started a process" if process.children(os.getpid()) else "")
        or ("its import opened a socket" if _sockets() > before.sockets else "")
        or _accelerator_reason(before.devices)
        or _seed_reason()
    )


def _thread_reason() -> str:
    python_threads = len(sys._current_frames()) - 1  # noqa: SLF001 - the only list with threads of all kinds
    if python_threads:
        return f"its import started {python_threads} Python thread(s)"
    # OpenBLAS's workers carry the name of the process; whether they are harmless is shown by a fork at the end.
    own = process.comm(os.getpid())
    strange = [name for name in _thread_names() if name not in _HARMLESS_THREADS and name != own]
    return f"its import started the thread {strange[0]}" if strange else ""


def _accelerator_reason(devices_before: FrozenSet[str]) -> str:
    initialised = accelerators.initialised_accelerator()
    if initialised:
        return f"its import initialised {initialised}"
    devices = sorted(accelerators.open_devices() - devices_before)
    if devices:
        return f"its import opened the device {devices[0]}"
    marked = _ask_child(accelerators.unusable_accelerator, PATIENCE) if "torch" in sys.modules else ""
    if marked is None:
        return "a forked process hangs or fails"
    return f"its import marks {marked} as used, and a forked process cannot use it then" if marked else ""


def _seed_reason() -> str:
    seeded = random_generators.seeded_library()
    return f"its import gives {seeded} a seed, also for jobs that do not import it" if seeded else ""


def private_memory(pid: str = "self") -> int:
    """Return the bytes of private memory of a process that cannot be dropped; 0 if the system does not report them."""
    size = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith(("Private_Dirty:", "SwapPss:")):
                    size += int(line.split()[1]) * 1024
    except OSError:
        return 0
    return size


def _import(name: str) -> str:
    try:
        if imports.is_user_module(name):
            return _USER_FILES_REASON
        with environ_reads.noting(imports.top_level_package(name)):
            importlib.import_module(name)
            for companion in _COMPANIONS.get(name, ()):
                importlib.import_module(companion)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - border: importing runs code of any library
        return f"{type(error).__name__}: {error}"
    return ""


class _Trial:
    """Imports one module after the other and measures each."""

    def __init__(self, budget: int) -> None:
        self.result = ImportResult([], {}, {})
        self._budget = budget
        self._before = _Before(_sockets(), accelerators.open_devices())
        self._memory_costs: Dict[str, int] = {}

    def import_module(self, name: str) -> str:
        """Import a module; return its name if this process can no longer be forked, else ''."""
        began, before = time.perf_counter(), private_memory()
        problem = _import(name)
        seconds = time.perf_counter() - began
        if problem:
            self.result.failed[name] = problem
        reason = unfit_reason(self._before)
        if reason:
            self.result.failed.setdefault(name, reason)
            return name
        self._memory_costs[name] = max(0, private_memory() - before)
        if self._budget and sum(self._memory_costs.values()) > self._budget:
            return self._reject_largest()
        if not problem and name in sys.modules:
            self.result.loaded.append(name)
            self.result.costs[name] = {"seconds": round(seconds, 4), "bytes": self._memory_costs[name]}
        return ""

    def _reject_largest(self) -> str:
        """Choose the largest to be left out, so that as many as possible have room."""
        largest = max(self._memory_costs, key=lambda name: self._memory_costs[name])
        size, limit = self._memory_costs[largest] / _MIB, self._budget // _MIB
        self.result.failed[largest] = f"it takes {size:.0f} MiB of the {limit} MiB that all preloads may take here"
        return largest


def import_all(modules: List[str], budget: int = 0) -> ImportResult:
    """Import modules, and nothing else: not one of them is used.

    ``budget`` is the number of bytes of private memory that they may take together; 0 is no limit.
    """
    trial = _Trial(budget)
    if not modules:
        imports.end_watching()
        return trial.result
    clocks.begin_watching()
    import_effects.begin_watching()
    random_generators.begin_watching()
    try:
        spoilt_by = next(filter(None, map(trial.import_module, modules)), "")
    finally:
        random_generators.end_watching()
        import_effects.end_watching()
        clocks.end_watching()
    environ_reads.finish()
    found = trial.result
    for name, cost in found.costs.items():
        needed = imports.dependencies_of([imports.top_level_package(name)])
        cost["needs"] = [
            other for other in found.loaded if other != name and imports.top_level_package(other) in needed
        ]
    return found._replace(unfit_module=spoilt_by)


def _numpy() -> None:
    numpy = sys.modules["numpy"]
    square = numpy.ones((96, 96))
    if square.dot(square)[0, 0] != square.shape[0]:
        raise ArithmeticError


def _torch() -> None:
    torch = sys.modules["torch"]
    square = torch.ones(96, 96, requires_grad=True)
    (square @ square).sum().backward()


_EXERCISES: Tuple[Tuple[str, Callable[[], None]], ...] = (("numpy", _numpy), ("torch", _torch))


def _ask_child(question: Callable[[], str], timeout: float) -> Optional[str]:
    """Return the answer of a function that runs in a forked child; None after ``timeout`` seconds."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(theirs, b"." + question().encode())
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    answer = os.read(ours, 4096) if select.select([ours], [], [], timeout)[0] else b""
    os.close(ours)
    if not answer:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return answer[1:].decode() if answer else None


def _compute(exercise: Callable[[], None]) -> str:
    """Compute with two threads."""
    threads.limit(2)
    exercise()
    return ""


def find_unsafe_library(timeout: float = PATIENCE) -> Optional[str]:
    """Name the library that does not work in a forked child, None when all do."""
    for name, exercise in _EXERCISES:
        if name in sys.modules and _ask_child(functools.partial(_compute, exercise), timeout) is None:
            return name
    return None

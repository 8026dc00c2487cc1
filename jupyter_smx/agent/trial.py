"""Whether a process that has imported modules is still fit to be forked."""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from jupyter_smx.agent import process, threads

# Native threads that are known to survive a fork of their process.
_HARMLESS_THREADS = ("jemalloc_bg_thd",)
# What numpy would import at its first use, in every child again.
_COMPANIONS: Dict[str, Tuple[str, ...]] = {"numpy": ("numpy.random",)}
PATIENCE = 5.0
"""Seconds that a forked child may take for one small computation."""


class Imported(NamedTuple):
    """What an import did: modules that are there now, reasons of those that are not, and the one that spoilt it."""

    loaded: List[str]
    failed: Dict[str, str]
    spoilt_by: str = ""


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


def _own_name() -> str:
    try:
        with open("/proc/self/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _sockets() -> int:
    count = 0
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


def objection(sockets_before: int) -> str:
    """Say why this process must not be forked any more, '' when nothing speaks against it."""
    python_threads = len(sys._current_frames()) - 1  # noqa: SLF001 - the only list with threads of all kinds
    if python_threads:
        return f"its import started {python_threads} Python thread(s)"
    # OpenBLAS's workers carry the name of the process; whether they are harmless is shown by the fork below.
    strange = [name for name in _thread_names() if name not in _HARMLESS_THREADS and name != _own_name()]
    if strange:
        return f"its import started the thread {strange[0]}"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "its import initialised CUDA"
    if process.children(os.getpid()):
        return "its import started a process"
    if _sockets() > sockets_before:
        return "its import opened a socket"
    return ""


def _import(name: str) -> str:
    try:
        importlib.import_module(name)
        for companion in _COMPANIONS.get(name, ()):
            importlib.import_module(companion)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - border: importing runs code of any library
        return f"{type(error).__name__}: {error}"
    return ""


def import_all(modules: List[str]) -> Imported:
    """Import modules, and nothing else: not one of them is used."""
    loaded: List[str] = []
    failed: Dict[str, str] = {}
    sockets = _sockets()
    for name in modules:
        problem = _import(name)
        if problem:
            failed[name] = problem
        reason = objection(sockets)
        if reason:
            failed.setdefault(name, reason)
            return Imported(loaded, failed, spoilt_by=name)
        if name not in failed and name in sys.modules:
            loaded.append(name)
    return Imported(loaded, failed)


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


def _passes(exercise: Callable[[], None], patience: float) -> bool:
    """Fork a child that computes with two threads, and say whether it came back in time."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            threads.limit(2)
            exercise()
            os.write(theirs, b".")
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    ready = select.select([ours], [], [], patience)[0]
    passed = bool(ready) and os.read(ours, 1) == b"."
    os.close(ours)
    if not passed:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return passed


def hanging(patience: float = PATIENCE) -> Optional[str]:
    """Name the library that does not work in a forked child, None when all do."""
    for name, exercise in _EXERCISES:
        if name in sys.modules and not _passes(exercise, patience):
            return name
    return None

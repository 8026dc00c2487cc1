"""Find processes of this machine by their mark, session or parent, and end them."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)

Identity = Tuple[int, int]
"""Process id and start time. A pid alone may by now belong to a stranger."""

Table = Dict[int, "Process"]

_PROC = Path("/proc")
_LINUX = sys.platform == "linux"
_DEAD = ("Z", "X", "x")
_STOPPED = ("T", "t")
_PAUSE = 0.005


class Process(NamedTuple):
    """One living process; ``started`` is in clock ticks since boot on Linux, elsewhere in milliseconds of the epoch."""

    pid: int
    started: int
    parent: int
    session: int

    def identity(self) -> Identity:
        """Return an identity that no other process has before the next boot of this machine."""
        return self.pid, self.started


def parse_stat(text: str) -> tuple[Process, str]:
    """Read one ``/proc/<pid>/stat`` line: the process and the letter of its state; a name may hold any character."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    pid = int(head.split("(", 1)[0])
    return Process(pid=pid, started=int(fields[19]), parent=int(fields[1]), session=int(fields[3])), fields[0]


def boot_id() -> str:
    """Return an id that differs after each boot, so that a recorded pid from before it does not count."""
    if _LINUX:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    return str(int(_psutil().boot_time()))


def _psutil() -> Any:
    """Load psutil, which only a system without ``/proc`` needs; machines that hosts are sent to need not have it."""
    import psutil  # noqa: PLC0415 - as said

    return psutil


def _read_proc(pid: int) -> Process | None:
    try:
        process, state = parse_stat((_PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # mounted with hidepid=1, /proc lists the processes of others without details
    return None if state in _DEAD else process


def _read_psutil(pid: int) -> Process | None:
    psutil = _psutil()
    try:
        found = psutil.Process(pid)
        if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return Process(pid=pid, started=int(found.create_time() * 1000), parent=found.ppid(), session=os.getsid(pid))
    except (psutil.Error, OSError):
        return None


def read_process(pid: int) -> Process | None:
    """Read one process; None if it is gone, is a zombie, or is a hidden process of another user.

    :raises OSError: the process table cannot be read.
    """
    return _read_proc(pid) if _LINUX else _read_psutil(pid)


def start_time(process: Process) -> float:
    """Return the start time in seconds of the epoch."""
    if _LINUX:
        return float(_psutil().boot_time()) + process.started / os.sysconf("SC_CLK_TCK")
    return process.started / 1000


def is_alive(identity: Identity) -> bool:
    """Return True if exactly this process lives, and not another one with its pid."""
    found = read_process(identity[0])
    return found is not None and found.identity() == identity


def is_stopped(identity: Identity) -> bool:
    """Return True if exactly this process lives and is stopped, by a signal or a debugger."""
    if not is_alive(identity):
        return False
    if not _LINUX:
        psutil = _psutil()
        try:
            return bool(psutil.Process(identity[0]).status() == psutil.STATUS_STOPPED)
        except (psutil.Error, OSError):
            return False
    try:
        return parse_stat((_PROC / str(identity[0]) / "stat").read_text(errors="replace"))[1] in _STOPPED
    except OSError:
        return False


def read_table() -> Table:
    """Read all living processes."""
    pids = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdecimal()) if _LINUX else _psutil().pids()
    return {process.pid: process for process in map(read_process, pids) if process is not None}


def _environment(pid: int) -> bytes:
    """Return the environment with which a process started, empty if it is hidden."""
    try:
        if _LINUX:
            return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""
    psutil = _psutil()
    try:
        pairs = psutil.Process(pid).environ().items()
        return b"\0".join(f"{name}={value}".encode(errors="surrogateescape") for name, value in pairs)
    except (OSError, psutil.Error):
        return b""


def find_marked(marks: Iterable[str], known: Table) -> set[int]:
    """Find the processes in whose environment one of the ``NAME=value`` lines stands; children inherit it."""
    wanted = {mark.encode(errors="surrogateescape") for mark in marks}
    return {pid for pid in known if not wanted.isdisjoint(_environment(pid).split(b"\0"))}


def process_tree(roots: Iterable[Identity], known: Table) -> set[int]:
    """Find living roots, the members of their sessions, and everything that descends from any of these; pure."""
    alive = {pid for pid, started in roots if pid in known and known[pid].started == started}
    members = alive | {process.pid for process in known.values() if process.session in alive}
    while True:
        more = {process.pid for process in known.values() if process.parent in members} - members
        if not more:
            return members
        members |= more


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal this process, never another process that reused its number; no error if it is gone.

    Return False if it belongs to another user: processes that a job started by ``sudo`` are root's.
    """
    try:
        descriptor = os.pidfd_open(process.pid) if _LINUX and hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return True
    except OSError:  # a kernel before 5.3, or a sandbox that does not know the call
        descriptor = None
    try:
        if not is_alive(process.identity()):
            return True
        if descriptor is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _stop(found: Iterable[Process]) -> set[int]:
    """Stop processes; return the pids of other users' processes, and log them."""
    strangers = {process.pid for process in found if not send_signal(process, signal.SIGSTOP)}
    if strangers:
        _log.warning("processes=%s belong to another user (e.g. after sudo) and keep running", sorted(strangers))
    return strangers


def kill_all(select: Callable[[Table], set[int]], seconds: float) -> set[int]:
    """Kill what ``select`` finds in the process table until it finds nothing more; blocks ``seconds`` at most.

    All processes are stopped before any is killed, so that none forks in between. Processes of other users
    cannot be ended, and are not awaited.

    :return: pids that are still there when the time is over.
    """
    end = time.monotonic() + seconds
    spared = {os.getpid(), 1}
    while True:
        stopped: Table = {}
        known = read_table()
        while new := {pid: known[pid] for pid in select(known) - spared - stopped.keys() if pid in known}:
            spared |= _stop(new.values())
            stopped |= {pid: process for pid, process in new.items() if pid not in spared}
            known = read_table()
        for process in stopped.values():
            send_signal(process, signal.SIGKILL)
        if not stopped or time.monotonic() >= end:
            return {process.pid for process in stopped.values() if is_alive(process.identity())}
        while any(is_alive(process.identity()) for process in stopped.values()) and time.monotonic() < end:
            time.sleep(_PAUSE)


def kill_in_turn(selections: Iterable[Callable[[Table], set[int]]], seconds: float) -> set[int]:
    """Do as :func:`kill_all` with one selection after the other; blocks ``seconds`` at most in all."""
    end = time.monotonic() + seconds
    left: set[int] = set()
    for select in selections:
        left |= kill_all(select, max(0.0, end - time.monotonic()))
    return left

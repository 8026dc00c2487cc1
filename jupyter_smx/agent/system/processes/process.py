"""Processes of this machine: descendants, names, priorities; ctypes where Python has no function."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Sequence

from jupyter_smx.agent.system.processes import process_mark

if TYPE_CHECKING:
    import resource

LINUX = sys.platform.startswith("linux")
_PART = 64 * 1024
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The first namespace of the kernel: PROC_PID_INIT_INO of Linux's ``include/linux/proc_ns.h``, the same everywhere."""


@lru_cache(maxsize=None)
def entry() -> str:
    """Return the path to start Python with in order to run this program again: the agent's archive or folder."""
    path = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.isdir(path):
        return path
    while not os.path.isfile(path):
        path = os.path.dirname(path)
    return path


@lru_cache(maxsize=None)
def libc() -> Any:
    """Load the C library of this process, once: each load makes a class, which a zygote without a collector keeps."""
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> bool:
    """Call ``prctl``; False where there is none or it refused."""
    return LINUX and libc().prctl(option, value, 0, 0, 0) == 0


def become_subreaper() -> bool:
    """Make this process the new parent of every descendant whose own parent ended."""
    return prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Get SIGKILL when the parent ends (Linux; elsewhere nothing happens)."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def has_machine_pids() -> bool:
    """Return True if PIDs here are those of the machine's drivers; in a container they are not."""
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:  # no Linux, or no namespaces
        return True


def set_oom_score(score: int) -> None:
    """Set how early the kernel kills this process when memory runs out (-1000 to 1000), if permitted."""
    with contextlib.suppress(OSError):
        write_file("/proc/self/oom_score_adj", str(score))


def write_file(path: str, words: str) -> None:
    """Write to a file of the kernel; a text file of Python's would copy 200 more pages of a fork.

    :raises OSError: it does not exist, or the kernel refuses the text.
    """
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, words.encode())
    finally:
        os.close(fd)


def print_error(error: BaseException) -> None:
    """Write an error with its traceback to stderr.

    By the interpreter's own hook: importing ``traceback`` takes 4 ms of each start, and half a megabyte.
    """
    with contextlib.suppress(OSError):
        sys.__excepthook__(type(error), error, error.__traceback__)
        sys.stderr.flush()


def print_line(line: str) -> None:
    """Write a line to stderr; on a full disk only the line is lost."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def log(text: str) -> None:
    """Write a line to the agent's log."""
    print_line(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} agent {os.getpid()} {text}")


def _read_bytes(path: str) -> str:
    """Read a file that the kernel makes, in less than half of the calls that a text file of Python's needs."""
    fd = os.open(path, os.O_RDONLY)
    try:
        parts = [os.read(fd, _PART)]
        while parts[-1]:
            parts.append(os.read(fd, _PART))
    finally:
        os.close(fd)
    return b"".join(parts).decode("utf-8", "replace")


def read_file(path: str) -> str:
    """Read a file that the kernel makes, '' where it is not there or may not be read."""
    try:
        return _read_bytes(path)
    except OSError:
        return ""


def read_stat(pid: int) -> List[str]:
    """Return the fields of ``/proc/PID/stat`` after the name, from the state on; [] if the process is gone."""
    return read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()


def parse_cpu_seconds(fields: Sequence[str]) -> float:
    """Return the CPU seconds in a result of :func:`read_stat`, of the process and of its reaped children."""
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS  # utime, stime, cutime, cstime


def start_time(pid: int) -> int:
    """Return what distinguishes two processes with the same pid: clock ticks since boot, or 0 if unknown."""
    fields = read_stat(pid)
    return int(fields[19]) if len(fields) > 19 else 0  # noqa: PLR2004 - field 22 of stat(5), counted after the name


def activity(pids: Iterable[int]) -> List[str]:
    """Return values that change with any activity of these processes; empty if they cannot be read.

    Bytes alone are not enough. They count when a call returns: a copy by ``sendfile`` after all of it, and data of a
    socket never. A thread that waits for a slow connection or disk is woken with each progress, and each thread has a
    counter of that. A thread that polls a clock is woken, too, so a stall of that one cannot be detected.
    """
    return [sign for pid in pids for sign in _process_activity(pid) if sign]


def _process_activity(pid: int) -> List[str]:
    fields = read_stat(pid)
    # Faults of pages and CPU of its own and of the children that it waited for.
    found = [" ".join([str(pid), *fields[7:15]]) if fields else "", read_file(f"/proc/{pid}/io")]
    with contextlib.suppress(OSError):
        tasks = [read_file(f"/proc/{pid}/task/{task}/status") for task in os.listdir(f"/proc/{pid}/task")]
        found += [line for text in tasks for line in text.splitlines() if "ctxt_switches" in line]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of the children that it waited for; 0 if they cannot be read.

    Also works for a process that has ended, until it is collected.
    """
    return parse_cpu_seconds(read_stat(pid))


def is_alive(pid: int) -> bool:
    """Return True if a process runs; one that exited and was not reaped yet does not."""
    if LINUX:
        return read_stat(pid)[:1] not in ([], ["Z"], ["X"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def peak_memory(used: resource.struct_rusage) -> int:
    """Return the peak memory of a process in bytes; Linux counts KiB, macOS bytes."""
    return int(used.ru_maxrss) * (1024 if LINUX else 1)


def boot_id() -> str:
    """Return an id that changes with each boot, or '' if it is unknown."""
    return read_file("/proc/sys/kernel/random/boot_id").strip()


def command_line(pid: int) -> str:
    """Return the command line of a process in at most 80 characters."""
    words = read_file(f"/proc/{pid}/cmdline").replace("\0", " ").strip() or comm(pid)
    return words[:80] or "?"


def set_name(own_name: str) -> None:
    """Set what ``ps`` and :func:`comm` show of this process, 15 characters at most."""
    if LINUX:
        libc().prctl(_PR_SET_NAME, own_name.encode(), 0, 0, 0)


def comm(pid: int) -> str:
    """Return the name that a process has set for itself."""
    return read_file(f"/proc/{pid}/comm").strip()


def _children_by_scan() -> Dict[int, List[int]]:
    found: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = read_stat(int(entry))
            if len(fields) > 1:
                found.setdefault(int(fields[1]), []).append(int(entry))
    return found


def children(pid: int) -> List[int]:
    """Return the pids whose parent is ``pid``; on systems other than Linux an empty list."""
    if not LINUX:
        return []
    found: List[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(word) for word in _read_bytes(f"/proc/{pid}/task/{task}/children").split()]
    except FileNotFoundError:
        # No such process, or a kernel without that file.
        return _children_by_scan().get(pid, []) if os.path.isdir(f"/proc/{pid}") else []
    except OSError:
        return []
    return found


def tree(roots: Iterable[int]) -> List[int]:
    """Return the processes and all their descendants, parents before children."""
    found: Dict[int, None] = {}
    waiting = deque(roots)
    while waiting:
        pid = waiting.popleft()
        if pid not in found:
            found[pid] = None
            waiting += children(pid)
    return list(found)


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_group(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to the group of a job, or to its first process when that has not become a leader yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        kill([pid], number)
    except PermissionError:
        return


def signal_all(leader: int, lost: Iterable[int], number: int) -> List[int]:
    """Send a signal once to each process of a job: to the group of the first, and to what left that group.

    ``lost`` are processes whose parent has exited. Daemons and workers of launchers have sessions of their own.
    Returns all of them.
    """
    everything = tree([leader, *lost])
    outside = [pid for pid in everything if not _is_in_group(pid, leader)]
    kill_group(leader, number)
    kill(outside, number)
    return everything


def _is_in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except OSError:
        return False


def find_marked(marker: str) -> List[int]:
    """Find the processes, other than this one, that have this host's mark in their environment or limits (Linux)."""
    if not LINUX:
        return []
    line, limits = f"JUPYTER_SMX_HOST={marker}", {process_mark.limit_of(marker)}
    others = (int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid())
    return [
        pid
        for pid in others
        if line in read_file(f"/proc/{pid}/environ").split("\0") or process_mark.has_limit(pid, limits)
    ]


def listening_ports(pids: Iterable[int]) -> Dict[int, int]:
    """Return the lowest TCP port on which each of these processes listens, if it listens (Linux)."""
    sockets = {pid: [name for name in _open_files(pid) if name.startswith("socket:")] for pid in pids}
    if not any(sockets.values()):
        # The kernel walks its whole table of connections for the list: 15 ms on a machine with 24 GB.
        return {}
    ports = _listening_sockets()
    found = {pid: [ports[name] for name in names if name in ports] for pid, names in sockets.items()}
    return {pid: min(own) for pid, own in found.items() if own}


def _listening_sockets() -> Dict[str, int]:
    """Return the port of each listening socket, by the link text of its descriptors."""
    found = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_file(path).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A":  # noqa: PLR2004 - 0A is LISTEN
                found[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    return found


def _open_files(pid: int) -> List[str]:
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def kill_all(pids: Iterable[int], seconds: float) -> None:
    """Kill processes and the orphans that they leave to this one, until all are gone or the time is over.

    Only for a process that is about to exit: it reaps its children, and their exit codes are lost.
    """
    until = time.monotonic() + seconds
    left = list(pids)
    kill(left)
    while left and time.monotonic() < until:
        time.sleep(0.005)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        # If the system lists no children, kill no process twice: its PID may have been reused.
        orphans = tree(children(os.getpid()))
        left = orphans or [pid for pid in left if is_alive(pid)]
        kill(orphans)


def wait_gone(pids: Iterable[int], seconds: float) -> List[int]:
    """Wait, at most ``seconds``, until exiting processes are gone; return those that are not."""
    until = time.monotonic() + seconds
    left = [pid for pid in pids if is_alive(pid)]
    while left and time.monotonic() < until:
        time.sleep(0.005)
        left = [pid for pid in left if is_alive(pid)]
    return left

"""Find processes of a host without its mark, because their environment was cleaned and their parents have exited.

Only traits that no other program has count: the limit that stands for the mark, the host's mount namespace, an open log
or result of its jobs, ``ml`` or ``tmp`` as the working folder without a terminal, or another working folder of the
host with an empty environment. A person's shell or editor in that folder is left alone, and so is a controller, which
opens results to link them.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

from jupyter_smx.agent.paths import ML
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process_mark

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.process_table import Identity, Table

_PROC = "/proc"
_WRITES = os.O_WRONLY | os.O_RDWR
_DELETED = " (deleted)"
_WORK = (host_layout.ML, host_layout.TMP)
"""Folders of a host that its jobs work in."""
_JOBS = (host_layout.SPOOL, host_layout.SLOTS)
"""Folders of a host with one folder for each job, which only jobs and the agent write to."""

FileId = Tuple[int, int]
"""Device and inode of a file."""


class HostTraces(NamedTuple):
    """Common traits of the processes of some hosts; ``namespaces`` has the ``/opt/ml`` of isolated hosts.

    ``locks`` has the files that only a controller has open, ``limits`` what ``process_mark`` gives their processes.
    """

    folders: Tuple[str, ...]
    work_folders: Tuple[str, ...]
    job_folders: Tuple[str, ...]
    namespaces: Tuple[FileId, ...]
    locks: Tuple[str, ...]
    limits: FrozenSet[int]


def read_traces(folders: Iterable[str], locks: Iterable[str] = (), marks: Iterable[str] = ()) -> HostTraces:
    """Read the traits of the processes of hosts with these folders; folders that are gone have none.

    A process that has one of the files ``locks`` open is a controller and never found. ``marks`` are the lines
    ``NAME=value`` in the environments of the hosts' processes.
    """
    real = tuple(os.path.realpath(folder) for folder in folders)
    own = _file_id(ML)
    found = (_file_id(os.path.join(folder, host_layout.ML)) for folder in real)
    work, jobs = (tuple(os.path.join(folder, name) for folder in real for name in names) for names in (_WORK, _JOBS))
    # Where this process itself sees the host's folder as /opt/ml, every program of the machine does.
    namespaces = tuple(each for each in found if each is not None and each != own)
    limits = frozenset(process_mark.limit_of(mark.partition("=")[2]) for mark in marks)
    return HostTraces(real, work, jobs, namespaces, tuple(map(os.path.realpath, locks)), limits)


def find_unmarked(traces: HostTraces, known: Table, checked: Dict[Identity, bool]) -> Set[int]:
    """Find the processes with such traces; ``checked`` has the findings of earlier calls and gets those of this one."""
    found = set()
    for process in known.values():
        identity = process.identity()
        if identity not in checked:
            ours = process.pid != os.getpid() and _has_traces(process.pid, traces)
            checked[identity] = ours and not _is_controller(process.pid, traces.locks)
        if checked[identity]:
            found.add(process.pid)
    return found


def _has_traces(pid: int, traces: HostTraces) -> bool:
    if traces.limits and process_mark.has_limit(pid, traces.limits):
        return True
    if traces.namespaces and _file_id(f"{_PROC}/{pid}/root{ML}") in traces.namespaces:
        return True
    if _has_terminal(pid):
        return False  # a person may look around in the host's folder
    if _writes_into(pid, traces.job_folders) or _is_in(pid, traces.work_folders):
        return True
    return _is_in(pid, traces.folders) and _has_empty_environment(pid)


def _is_controller(pid: int, locks: Tuple[str, ...]) -> bool:
    return any(_is_below(path, locks) for _number, path in _open_files(pid))


def _file_id(path: str) -> Optional[FileId]:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _has_terminal(pid: int) -> bool:
    try:
        with open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[4] != "0"
    except (OSError, IndexError):
        return True  # it has exited, or is hidden: its traits are unknown


def _is_below(path: str, folders: Iterable[str]) -> bool:
    name = path[: -len(_DELETED)] if path.endswith(_DELETED) else path
    return any(name == folder or name.startswith(folder + os.sep) for folder in folders)


def _is_in(pid: int, folders: Iterable[str]) -> bool:
    try:
        return _is_below(os.readlink(f"{_PROC}/{pid}/cwd"), folders)
    except OSError:
        return False


def _has_empty_environment(pid: int) -> bool:
    try:
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            return not file.read().strip(b"\0")
    except OSError:
        return False


def _writes_into(pid: int, folders: Tuple[str, ...]) -> bool:
    return any(_is_below(path, folders) and _is_open_to_write(pid, number) for number, path in _open_files(pid))


def _open_files(pid: int) -> List[Tuple[str, str]]:
    folder = f"{_PROC}/{pid}/fd"
    try:
        return [(number, os.readlink(f"{folder}/{number}")) for number in os.listdir(folder)]
    except OSError:
        return []  # it belongs to another user, has ended, or closes files now


def _is_open_to_write(pid: int, number: str) -> bool:
    """Return True if a descriptor is of a plain file open for writing, as for a log, not only for reading it."""
    try:
        if not stat.S_ISREG(os.stat(f"{_PROC}/{pid}/fd/{number}").st_mode):
            return False
        with open(f"{_PROC}/{pid}/fdinfo/{number}", encoding="ascii") as file:
            words = dict(line.split(":", 1) for line in file if ":" in line)
        return bool(int(words["flags"], 8) & _WRITES)
    except (OSError, KeyError, ValueError):
        return False

"""Control groups that limit this host's jobs: the engine makes them, and each child joins one.

The agent and its zygotes stay outside: preloaded modules do not count for a job, and a job that exceeds its limit does
not end the agent.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import time
from typing import Any, Dict, List, Mapping, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

_PATIENCE = 1.0
"""Seconds; the kernel may still count a process that has ended."""
_PAUSE = 0.005


class JobCgroups(NamedTuple):
    """CPUs and bytes (0: no limit) of all processes of a job together, and the folder of the group for each.

    ``groups`` has ``cpu`` and ``memory`` if they are applied; ``reason`` explains a missing one. ``of`` is their
    instance type. ``whole`` names limits of the host as a whole, which no process has to join.
    """

    cpus: int = 0
    memory: int = 0
    groups: Mapping[str, str] = {}
    reason: str = ""
    of: str = ""
    whole: Tuple[str, ...] = ()

    def is_bound(self, kind: str) -> bool:
        """Return True if ``cpu`` or ``memory`` is limited."""
        return kind in self.groups or kind in self.whole

    def note(self) -> str:
        """Return a sentence about missing limits and the reason, '' if there is none."""
        free = [word for kind, word in (("cpu", "CPU"), ("memory", "memory")) if not self.is_bound(kind)]
        return f"{' and '.join(free)} of jobs are not limited here: {self.reason}." if free and self.reason else ""


_current_limits: List[JobCgroups] = []


def current() -> JobCgroups:
    """Return the limits of this process's host."""
    return _current_limits[0] if _current_limits else JobCgroups()


def load_limits(raw: Mapping[str, Any], of: str) -> JobCgroups:
    """Read the limits of this host from ``host.json``; ``of`` is its instance type."""
    _current_limits[:] = [
        JobCgroups(
            cpus=int(raw.get("cpus") or 0),
            memory=int(raw.get("memory") or 0),
            groups=dict(raw.get("groups") or {}),
            reason=str(raw.get("reason") or ""),
            of=of,
            whole=tuple(raw.get("whole") or ()),
        )
    ]
    return _current_limits[0]


class GroupJoin:
    """This process on its way into groups: the kernel may take 20 ms for the first one, and there is other work."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self._files = [os.path.join(folder, "cgroup.procs") for folder in dict.fromkeys(groups.values())]
        self._reason = ""
        self._done = _thread.allocate_lock()
        self._done.acquire()
        if not self._files:
            self._done.release()
            return
        try:
            _thread.start_new_thread(self._join, ())
        except RuntimeError:  # no thread to be had: then one after the other
            self._join()

    def _join(self) -> None:
        try:
            for path in self._files:
                process.write_file(path, "0")
        except OSError as error:
            self._reason = f"{error.filename or path}: {error.strerror}"
        finally:
            self._done.release()

    def wait(self) -> str:
        """Wait until the process has joined the groups; return why it is not in all of them, '' if it is."""
        self._done.acquire()
        return self._reason


def remove(groups: Mapping[str, str]) -> None:
    """Remove groups without processes; a later release or start removes the rest."""
    end = time.monotonic() + _PATIENCE
    for folder in dict.fromkeys(groups.values()):
        with contextlib.suppress(OSError):
            while not _is_removed(folder) and time.monotonic() < end:
                time.sleep(_PAUSE)


def _is_removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def view(limits: JobCgroups) -> Dict[str, Any]:
    """Return the limits for the answer to ``hello``: the applied numbers, and the reason of missing ones."""
    found: Dict[str, Any] = {"reason": limits.reason} if limits.reason else {}
    found.update({"cpus": limits.cpus} if limits.is_bound("cpu") else {})
    found.update({"memory": limits.memory} if limits.is_bound("memory") else {})
    return found

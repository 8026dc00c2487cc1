"""Find the controllers of other users and other data folders on this machine."""

from __future__ import annotations

import pwd
from pathlib import Path

from msgspec import Struct

from jupyter_smx.agent.system.processes.process_table import parse_stat

_MODULE = [b"-m", b"jupyter_smx.controller"]
"""Arguments with which ``controller_launch`` starts a controller."""


class ControllerProcess(Struct, frozen=True):
    """A controller that runs on this machine, and the name of its user."""

    pid: int
    user: str


def find_other_controllers(own_pid: int, proc: Path = Path("/proc")) -> list[ControllerProcess]:
    """List the controllers that this process can see, except itself, by process id. Blocks.

    The list is empty on systems without ``/proc``. A container and ``hidepid`` hide the processes of others.
    """
    try:
        pids = sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit())
    except OSError:
        return []
    parents = {pid: parent for pid in pids if (parent := _parent_of_controller(proc / str(pid))) is not None}
    # A child has the command line of its parent until it runs a program of its own.
    first = [pid for pid, parent in parents.items() if pid != own_pid and parent not in (own_pid, *parents)]
    return [ControllerProcess(pid, user) for pid in first if (user := _user_of(proc / str(pid)))]


def _parent_of_controller(folder: Path) -> int | None:
    """Return the parent of a process that is a controller; None for other processes and for one that has ended."""
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        if words[1:3] != _MODULE:
            return None
        return parse_stat((folder / "stat").read_text(errors="replace"))[0].parent
    except (OSError, ValueError, IndexError):
        return None


def _user_of(folder: Path) -> str:
    """Return the name of a user, or the number of one without a name; "" if the process has ended."""
    try:
        uid = folder.stat().st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

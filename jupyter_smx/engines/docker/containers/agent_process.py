"""Find the stopped agent of a container in this machine's ``/proc``, because its daemon does not report it."""

from __future__ import annotations

from pathlib import Path

from jupyter_smx.agent.system.processes import process_table

_PROC = Path("/proc")
_STOPPED = ("T", "t")


def stopped_agent_pid(first_pid: int, container: str) -> int:
    """Return this machine's PID of a container's agent if a signal has stopped it; 0 if not, or unknown.

    ``first_pid`` is the PID of the container's first process, by the daemon. A controller that runs in a container
    itself sees other PIDs; so the control groups of that process must name the container.
    """
    try:
        first = _PROC / str(first_pid)
        if not first_pid or container not in (first / "cgroup").read_text():
            return 0
        children = (first / "task" / str(first_pid) / "children").read_text().split()
        # The first process is the agent, or an init process that started it.
        return next((pid for pid in (*map(int, children), first_pid) if _is_stopped_agent(_PROC / str(pid))), 0)
    except (OSError, ValueError):
        return 0


def _is_stopped_agent(folder: Path) -> bool:
    if b"serve" not in (folder / "cmdline").read_bytes().split(b"\0"):
        return False
    return process_table.parse_stat((folder / "stat").read_text(errors="replace"))[1] in _STOPPED

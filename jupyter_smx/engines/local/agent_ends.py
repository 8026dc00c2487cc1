"""Remember how agents of this machine ended, to explain a lost host: the signal, and whether memory ran out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_smx.engines.local.start import Children

_VMSTAT = Path("/proc/vmstat")
_MAX_ENDS = 1_000
"""Agents whose ends are remembered; the reason is asked for soon after each."""


def oom_kill_count(vmstat: str) -> int:
    """Read how many processes the system killed for lack of memory since it started; 0 if it does not count them."""
    rows = (line.split() for line in vmstat.splitlines())
    return next((int(row[1]) for row in rows if row[:1] == ["oom_kill"]), 0)


def exit_reason(code: int, oom_kills: int) -> str:
    """Describe the end of an agent from the number that its parent got.

    ``oom_kills`` counts the processes that the system killed for lack of memory since the agent was last seen alive. ""
    if the agent ended by itself: what it wrote says more.
    """
    if code >= 0:
        return ""
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    if -code == signal.SIGKILL and oom_kills > 0:
        return (
            f"the system killed its agent (signal {-code}, {name}), probably for lack of memory. Use less memory, or a "
            "larger instance type."
        )
    return (
        f"its agent was ended by signal {-code} ({name}), which another program, a person or the job sent. Run it "
        "again, or set --retries."
    )


class AgentEnds:
    """Exit codes of agents by process id, and the counter of killed processes while all of them lived."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._codes: dict[int, int] = {}
        self._oom_kills = read_oom_kills()

    def reap(self) -> None:
        """Collect the agents that have ended; a new agent with the number of an old one has not."""
        for pid, child in list(self._children.items()):
            self._codes.pop(pid, None)
            code = child.poll()
            if code is not None:
                self._children.pop(pid, None)
                self._codes[pid] = code
        for pid in list(self._codes)[:-_MAX_ENDS]:
            self._codes.pop(pid, None)

    def mark_alive(self, oom_kills: int) -> None:
        """Take the counter as it was before all agents were seen alive."""
        self._oom_kills = oom_kills

    def reason(self, pid: int) -> str:
        """Return how an agent ended; "" if it lives, ended by itself, or is not a child of this process."""
        self.reap()
        code = self._codes.get(pid)
        return "" if code is None else exit_reason(code, read_oom_kills() - self._oom_kills)


def read_oom_kills() -> int:
    """Read the system's counter of processes that were killed for lack of memory."""
    try:
        return oom_kill_count(_VMSTAT.read_text(encoding="ascii"))
    except OSError:
        return 0

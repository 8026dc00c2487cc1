"""What a test left behind: agents, jobs and controllers of this test run, and unix sockets that still listen.

A scan of ``/proc`` takes milliseconds. A test that started nothing, while no process of ours lives, needs none.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from jupyter_smx.testing import process_scan

RUN = "JUPYTER_SMX_TEST_RUN"
"""Environment variable that all processes of this test run inherit, so that two runs on one machine never mix."""

PROCESS_STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})


class StartCounter:
    """Count how often this process started another one, and how often it bound a socket."""

    def __init__(self) -> None:
        self.processes = 0
        self.sockets = 0

    def install(self) -> None:
        """Listen to Python's own audit events; they cannot be switched off again."""
        sys.addaudithook(self._count)

    def _count(self, event: str, _arguments: tuple[object, ...]) -> None:
        if event in PROCESS_STARTS:
            self.processes += 1
        elif event == "socket.bind":
            self.sockets += 1


class Leftovers:
    """Compare what lives after a test with what lived before it."""

    def __init__(self, counter: StartCounter) -> None:
        self._counter = counter
        self._looked_at = (-1, -1)
        self._processes: dict[tuple[int, str], process_scan.ProcessInfo] = {}
        self._sockets: set[str] = set()

    def look(self) -> None:
        """Record the living processes. Those of fixtures with a wider scope may stay."""
        if self.is_needed():
            self._processes = our_processes() if self._may_run() else {}
            self._sockets = process_scan.listening_sockets(os.getpid())
            self._looked_at = (self._counter.processes, self._counter.sockets)

    def is_needed(self) -> bool:
        """Return True if a scan is needed: a process was started, or lives and may start others, or a socket is new."""
        return self._may_run() or self._counter.sockets != self._looked_at[1]

    def _may_run(self) -> bool:
        return self._counter.processes != self._looked_at[0] or bool(self._processes) or has_children()

    def processes(self) -> list[process_scan.ProcessInfo]:
        """List the new processes since then. The next parked child of an earlier host may stay."""
        if not self._may_run():
            return []
        hosts = {seen.host() for seen in self._processes.values()} - {""}
        return [
            seen for key, seen in our_processes().items() if key not in self._processes and seen.host() not in hosts
        ]

    def sockets(self) -> set[str]:
        """List the sockets on which this process listens since then."""
        return process_scan.listening_sockets(os.getpid()) - self._sockets

    def is_clean(self) -> bool:
        """Return True if nothing is left."""
        return not self.processes() and not self.sockets()

    def kill(self) -> list[str]:
        """Kill the processes that are left, and describe everything that was."""
        left = self.processes()
        for seen in left:
            process_scan.kill(seen.pid)
        lines = [f"process {seen.pid} of {seen.host() or 'no host'}: {seen.command}" for seen in left]
        return lines + [f"socket {name}" for name in sorted(self.sockets())]


def has_children() -> bool:
    """Return True if a process that this one started still lives."""
    for thread in os.scandir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # threads end meanwhile
            if Path(thread.path, "children").read_bytes():
                return True
    return False


def our_processes() -> dict[tuple[int, str], process_scan.ProcessInfo]:
    """Find agents, jobs and controllers of this test run."""
    line = f"{RUN}={os.environ[RUN]}"
    return {
        (seen.pid, seen.started): seen
        for seen in process_scan.processes(line)
        if seen.pid != os.getpid()
        and seen.has_variable(line)
        and (seen.host() or "jupyter_smx.controller" in seen.command)
    }


COUNTER = StartCounter()
LEFTOVERS = Leftovers(COUNTER)

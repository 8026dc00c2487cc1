"""Run ``mpirun`` or ``orted`` so that the ranks, not Open MPI, handle an announced stop.

The announcement, SIGTERM, goes to the ranks themselves, which use the time until the end. Open MPI would shorten it: it
ends all ranks two seconds after it gets the signal. Its programs therefore block it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, List

from jupyter_smx.agent.launchers import child_processes
from jupyter_smx.agent.launchers.child_processes import SignalWaiter
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.launchers.host_connection import HostConnection
    from jupyter_smx.agent.wire import Header

_NAMES = ("mpirun", "orterun", "orted")
_ORTED = re.compile(r"(?:^|(?<=[\s;]))(?=(?:\S*/)?orted\s)")
_VERSION = re.compile(rb"\(Open MPI\) (\d[\w.]*)")
_BLOCK = (
    "import os, signal, sys\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


def shell_command(command: str) -> List[str]:
    """Return the command that runs this like ssh and survives SIGTERM, which some shells unblock at their start."""
    text = "trap : TERM\n" + _ORTED.sub('"$@" ', command, count=1)
    return ["/bin/sh", "-c", text, "sh", sys.executable, "-IS", "-c", _BLOCK]


def version() -> str:
    """Return the version of Open MPI on this machine, as 4.1.4; "" if that cannot be found out."""
    try:
        words = ["mpirun", "--version"]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search(done.stdout)
    return found.group(1).decode() if found else ""


class OpenMpiProgram:
    """A running program of Open MPI; ``shell`` is the program that it calls instead of ssh."""

    def __init__(self, words: List[str], shell: str, **how: Any) -> None:
        self._shell = shell
        self._has_sigterm = False
        # The program inherits blocked signals, but does not pass them on to ranks.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            self.popen = subprocess.Popen(words, **how)
            signal.signal(signal.SIGTERM, self._on_sigterm)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    def wait(self) -> int:
        """Wait for the program's exit; return its exit code."""
        return self.popen.wait()

    def restore_sigterm(self) -> None:
        """Restore the default action of SIGTERM; if the signal came meanwhile, exit by it."""
        if self._has_sigterm:
            child_processes.exit_by_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_sigterm(self, *_: Any) -> None:
        self._has_sigterm = True
        # Behind the shell that may have started it.
        found = (pid for pid in process.tree([self.popen.pid]) if process.comm(pid) in _NAMES)
        program = next(found, self.popen.pid)
        if not any(map(self._is_rank, process.children(program))):
            process.kill([program], signal.SIGINT)  # it still begins, and this one is not blocked

    def _is_rank(self, pid: int) -> bool:
        return process.is_alive(pid) and self._shell not in process.read_file(f"/proc/{pid}/cmdline")


def wait_for_remote(connection: HostConnection) -> Header:
    """Wait, on the leading host, for a program on another one; return what that host says of its end.

    :raises EOFError: the connection to the other host is closed.
    :raises OSError: the connection is lost.
    """
    signals = SignalWaiter()  # SIGTERM is for the ranks: without this process Open MPI would end them
    while not signals.wait([connection.socket]):
        pass
    return connection.receive()

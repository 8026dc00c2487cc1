"""Child processes of a launcher: wait for their signals, stop a script, and exit as the script did."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any, List, NoReturn, Optional, Sequence

from jupyter_smx.agent.system.processes import process

_PATIENCE = 10.0
"""Seconds from SIGTERM to SIGKILL for a script."""


class SignalWaiter:
    """Makes :meth:`wait` return at the end of a child and at SIGTERM, which no longer ends this process by itself."""

    def __init__(self) -> None:
        self.has_sigterm = False
        self._read_end, self._write_end = socket.socketpair()
        for end in (self._read_end, self._write_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._write_end.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, *_: Any) -> None:
        self.has_sigterm = True

    def wait(self, others: Sequence[socket.socket] = (), seconds: Optional[float] = None) -> List[socket.socket]:
        """Wait for a signal, for one of ``others`` to become readable, or for ``seconds``; return the readable ones."""
        ready, _, _ = select.select([self._read_end, *others], [], [], None if seconds is None else max(seconds, 0.0))
        if self._read_end in ready:
            self._read_end.recv(4096)
        return [one for one in others if one in ready]

    def restore_handlers(self) -> None:
        """Restore the default handlers; a SIGTERM that came meanwhile is sent once more."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._read_end.close()
        self._write_end.close()
        if self.has_sigterm:
            os.kill(os.getpid(), signal.SIGTERM)


def terminate_script(script: int) -> None:
    """Terminate a script and the processes that it started."""
    everything = process.tree([script])
    process.kill(everything, signal.SIGTERM)
    process.kill(process.wait_gone(everything, _PATIENCE))
    os.waitpid(script, 0)


def exit_like(status: int) -> NoReturn:
    """Exit as the script with this wait status did."""
    if os.WIFSIGNALED(status):
        exit_by_signal(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def exit_by_signal(number: int) -> NoReturn:
    """Exit by a signal."""
    signal.set_wakeup_fd(-1)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)

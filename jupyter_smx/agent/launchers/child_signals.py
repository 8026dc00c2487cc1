"""A process that starts others and has to hear of it at once when one of them, or itself, is told to end."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any, List, Optional, Sequence


class SignalWaiter:
    """Lets :meth:`wait` come back for the end of a child and for SIGTERM, which ends nothing by itself from now on."""

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
        """Wait for news, or until one of the others can be read, or for no longer than so many seconds; gives those."""
        ready, _, _ = select.select([self._read_end, *others], [], [], None if seconds is None else max(seconds, 0.0))
        if self._read_end in ready:
            self._read_end.recv(4096)
        return [one for one in others if one in ready]

    def restore_handlers(self) -> None:
        """Let signals do again what they do in any program; one that was noted comes now."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._read_end.close()
        self._write_end.close()
        if self.has_sigterm:
            os.kill(os.getpid(), signal.SIGTERM)

"""A process that starts others and has to hear of it at once when one of them, or itself, is told to end."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Any, List, Optional, Sequence


class News:
    """Lets :meth:`wait` come back for the end of a child and for SIGTERM, which ends nothing by itself from now on."""

    def __init__(self) -> None:
        self.told = False
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._tell)

    def _tell(self, *_: Any) -> None:
        self.told = True

    def wait(self, others: Sequence[socket.socket] = (), seconds: Optional[float] = None) -> List[socket.socket]:
        """Wait for news, or until one of the others can be read, or for no longer than so many seconds; gives those."""
        ready, _, _ = select.select([self._ours, *others], [], [], None if seconds is None else max(seconds, 0.0))
        if self._ours in ready:
            self._ours.recv(4096)
        return [one for one in others if one in ready]

    def leave_it(self) -> None:
        """Let signals do again what they do in any program; one that was noted comes now."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._ours.close()
        self._theirs.close()
        if self.told:
            os.kill(os.getpid(), signal.SIGTERM)

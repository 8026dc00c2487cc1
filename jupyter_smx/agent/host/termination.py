"""End a job on this host by request: SIGTERM once, and SIGKILL after its grace period."""

from __future__ import annotations

import math
import signal
import time
from typing import TYPE_CHECKING, Callable, List, Optional

from jupyter_smx.agent.host.kill_wait import KillWait, pause_after
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.forkserver.handles import ChildHandle
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer


class Termination:
    """Ends the processes of one job; ``cause`` is the reason of the first request, and "" before one.

    ``child`` is the job's own process, once it exists, and ``orphan_pids`` returns its processes that left its group.
    ``on_unkillable`` is called if no signal ends that process: one that waits for a disk may never end.
    """

    def __init__(self, loop: Loop, orphan_pids: Callable[[], List[int]], on_unkillable: Callable[[], None]) -> None:
        self.cause = ""
        self.child: Optional[ChildHandle] = None
        self._loop = loop
        self._orphan_pids = orphan_pids
        self._on_unkillable = on_unkillable
        self._patience = KillWait()
        self._due = math.inf
        self._timer: Optional[Timer] = None

    def request(self, grace: float, cause: str) -> None:
        """Send SIGTERM to the job, which then has ``grace`` seconds.

        Idempotent. A repeated request, as from a controller that lost the answer, may shorten the grace and never
        extends it. It sends no second SIGTERM, because many handlers treat that as a request to exit at once.
        """
        if not self.cause:
            self.cause = cause
            self.send_sigterm()
        due = time.monotonic() + grace
        if due < self._due:
            self._due = due
            self.cancel()
            self._timer = self._loop.later(grace, self.kill)

    def send_sigterm(self) -> None:
        """If a stop was requested, send SIGTERM to all processes of the job; do nothing before its start."""
        child = self.child
        if self.cause and child is not None and child.pid and not child.has_exited:
            process.signal_all(child.pid, self._orphan_pids(), signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the job, including new ones, until they are gone or the time is over.

        A job that has not started yet gets it as soon as it has.
        """
        child, began = self.child, time.monotonic()
        if child is None or child.has_exited:
            return
        left = [0]
        if child.pid:
            left = process.signal_all(child.pid, self._orphan_pids(), signal.SIGKILL)
        if self._patience.can_wait(len(left), began, sum(map(process.cpu_seconds, left))):
            self._timer = self._loop.later(pause_after(time.monotonic() - began), self.kill)
        else:
            self._on_unkillable()

    def cancel(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

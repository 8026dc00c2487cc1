"""Cancel uploads that stall after a job was asked to stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, List, Optional

from jupyter_smx.agent.host.kill_wait import KillWait

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer
    from jupyter_smx.agent.system.processes.forked_task import ForkedTask

STALL_TIMEOUT = 600.0
"""Seconds in which a task must make progress. A store that joins the parts of a large file takes minutes; a folder
whose server is gone, or a connection that lost its packets, never answers."""
MAX_DURATION = 7200.0
"""Seconds that one task may take in all. A sparse file of any length may be packed, and a task that only retries, or
reads a clock, looks as busy as one with progress. The limit is long, because canceling a slow upload of the last
checkpoint is worse."""
_CHECK_INTERVAL = 5.0
_ABORT_MESSAGE = (
    "it was cancelled, because the job was asked to stop and nothing moved for {still:g} s, or it took over "
    "{longest:g} s"
)


class StallWatchdog:
    """Cancels tasks without progress, once the job was asked to stop and its process has exited.

    Users stop a job for its last checkpoint and model. So neither a stop nor its grace, which is for the code, nor a
    repeated request, as from a controller that lost its stream, cancels anything: only a task that stalls or has no end
    is canceled. ``under_way`` returns the current task, None if none is running that may hang.
    """

    def __init__(self, loop: Loop, under_way: Callable[[], Optional[ForkedTask]]) -> None:
        self.abort_cause = ""
        """Cause of the stop request, once a task was canceled."""
        self._loop = loop
        self._current_task = under_way
        self._cause = ""
        self._task: Optional[ForkedTask] = None
        self._activity: List[str] = []
        self._steps = 0
        self._patience = KillWait(STALL_TIMEOUT, MAX_DURATION)
        self._timer: Optional[Timer] = None

    def start(self, cause: str) -> None:
        """Watch from now on, if a stop was requested: ``cause`` is the reason, "" for none. Idempotent."""
        if cause and not self._cause:
            self._cause = cause
            self._check()

    def _check(self) -> None:
        self._timer = self._loop.later(_CHECK_INTERVAL, self._check)
        task = self._current_task()
        if task is not self._task:
            self._task, self._patience = task, KillWait(STALL_TIMEOUT, MAX_DURATION)
        if task is None:
            return
        signs = task.activity()
        if not signs or signs != self._activity:  # without signs, assume progress
            self._activity, self._steps = signs, self._steps + 1
        # KillWait sees progress in a falling number, so pass the growing one with a minus sign.
        if not self._patience.can_wait(-self._steps, time.monotonic()):
            self.abort_cause = self._cause
            task.abort(_ABORT_MESSAGE.format(still=STALL_TIMEOUT, longest=MAX_DURATION))

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

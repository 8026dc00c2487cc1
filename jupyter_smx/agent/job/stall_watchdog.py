"""Cancel uploads that stall after a job was asked to stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, List, Optional

from jupyter_smx.agent.host.kill_wait import KillWait

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer
    from jupyter_smx.agent.system.processes.forked_task import ForkedTask

STALL_TIMEOUT = 600.0
"""Seconds in which an errand has to have done anything. A store that joins the parts of a large file takes minutes; a
folder whose server is gone, or a line that lost its packets, never answers."""
MAX_DURATION = 7200.0
"""Seconds that one errand may take in all, since a file without an end may be packed, which is no more than a number
in its folder, and since one that only asks again and again, or looks at a clock, is busy as one is that gets on. That
it is cut late is better than that a slow upload of somebody's last checkpoint is cut at all."""
_CHECK_INTERVAL = 5.0
_ABORT_MESSAGE = (
    "it was cancelled, because the job was asked to stop and nothing moved for {still:g} s, or it took over "
    "{longest:g} s"
)


class StallWatchdog:
    """Cuts errands short that do not get on, from when somebody wished for an end and the job's process is gone.

    The last checkpoint and the model are what users stop a job for, so a stop by itself cuts nothing, nor does the
    grace of the job, which was for its code, nor who asks once more, as a controller does that lost its stream: only
    what stands still is cut, or has no end. ``under_way`` gives what is at work, None where nothing is that may hang.
    """

    def __init__(self, loop: Loop, under_way: Callable[[], Optional[ForkedTask]]) -> None:
        self.abort_cause = ""
        """Why the end was wished for, once something was cut."""
        self._loop = loop
        self._current_task = under_way
        self._cause = ""
        self._task: Optional[ForkedTask] = None
        self._activity: List[str] = []
        self._steps = 0
        self._patience = KillWait(STALL_TIMEOUT, MAX_DURATION)
        self._timer: Optional[Timer] = None

    def start(self, cause: str) -> None:
        """Look from now on, where an end was wished for: ``cause`` is why, "" for none. Idempotent."""
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
        if not signs or signs != self._activity:  # where nobody can know, it may get on
            self._activity, self._steps = signs, self._steps + 1
        # More and more steps are to it what fewer and fewer that are left are to silence.
        if not self._patience.can_wait(-self._steps, time.monotonic()):
            self.abort_cause = self._cause
            task.abort(_ABORT_MESSAGE.format(still=STALL_TIMEOUT, longest=MAX_DURATION))

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

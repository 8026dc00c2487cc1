"""The haste of a job that shall end: what it made is brought to where it is kept, and not waited for for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, List, Optional

from jupyter_smx.agent.host.kill_patience import Patience

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop, Timer
    from jupyter_smx.agent.system.processes.forked_task import Errand

STILL = 600.0
"""Seconds in which an errand has to have done anything. A store that joins the parts of a large file takes minutes; a
folder whose server is gone, or a line that lost its packets, never answers."""
LONGEST = 7200.0
"""Seconds that one errand may take in all, since a file without an end may be packed, which is no more than a number
in its folder, and since one that only asks again and again, or looks at a clock, is busy as one is that gets on. That
it is cut late is better than that a slow upload of somebody's last checkpoint is cut at all."""
_LOOK = 5.0
_WHY = "it was cut short, for the job was told to end and nothing moved for {still:g} s, or all took over {longest:g} s"


class Haste:
    """Cuts errands short that do not get on, from when somebody wished for an end and the job's process is gone.

    The last checkpoint and the model are what users stop a job for, so a stop by itself cuts nothing, nor does the
    grace of the job, which was for its code, nor who asks once more, as a controller does that lost its stream: only
    what stands still is cut, or has no end. ``under_way`` gives what is at work, None where nothing is that may hang.
    """

    def __init__(self, loop: Loop, under_way: Callable[[], Optional[Errand]]) -> None:
        self.cut_for = ""
        """Why the end was wished for, once something was cut."""
        self._loop = loop
        self._under_way = under_way
        self._cause = ""
        self._errand: Optional[Errand] = None
        self._signs: List[str] = []
        self._steps = 0
        self._patience = Patience(STILL, LONGEST)
        self._timer: Optional[Timer] = None

    def begin(self, cause: str) -> None:
        """Look from now on, where an end was wished for: ``cause`` is why, "" for none. Idempotent."""
        if cause and not self._cause:
            self._cause = cause
            self._look()

    def _look(self) -> None:
        self._timer = self._loop.later(_LOOK, self._look)
        errand = self._under_way()
        if errand is not self._errand:
            self._errand, self._patience = errand, Patience(STILL, LONGEST)
        if errand is None:
            return
        signs = errand.signs()
        if not signs or signs != self._signs:  # where nobody can know, it may get on
            self._signs, self._steps = signs, self._steps + 1
        # More and more steps are to it what fewer and fewer that are left are to silence.
        if not self._patience.lasts(-self._steps, time.monotonic()):
            self.cut_for = self._cause
            errand.cut(_WHY.format(still=STILL, longest=LONGEST))

    def over(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

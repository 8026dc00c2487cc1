"""When a host tidies up: in a pause after its jobs, and now and then where they follow each other without one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Optional, Protocol

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Callback, Timer

_PAUSE = 0.2
"""Seconds without a job; a fork in each gap of a series would take longer than the jobs do."""
_LONGEST = 5.0
"""Seconds after which what is left is not kept for a pause any more."""


class _Loop(Protocol):
    def later(self, seconds: float, call: Callback, /) -> Timer: ...


class Pause:
    """Calls ``tidy`` once nothing was left for a while, and at once where that was long ago or ``is_urgent``.

    ``tidy`` may find that this is no moment for it, as a job runs; it says by `used` that it was one.
    """

    def __init__(
        self,
        loop: _Loop,
        tidy: Callback,
        is_urgent: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._tidy = tidy
        self._is_urgent = is_urgent
        self._clock = clock
        self._timer: Optional[Timer] = None
        self._left_since: Optional[float] = None

    def soon(self) -> None:
        """Say that something is left to be tidied up."""
        now = self._clock()
        if self._left_since is None:
            self._left_since = now
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if now - self._left_since > _LONGEST or self._is_urgent():
            self._tidy()
        else:
            self._timer = self._loop.later(_PAUSE, self._over)

    def again(self) -> None:
        """Say that what was tidied up is; something may have been left since that began."""
        if self._left_since is not None:
            self.soon()

    def _over(self) -> None:
        self._timer = None
        self._tidy()

    def used(self) -> None:
        """Say that this pause is used: nothing else is left."""
        self._left_since = None

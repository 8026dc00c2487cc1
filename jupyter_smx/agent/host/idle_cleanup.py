"""Decide when a host cleans up: in a pause after its jobs, and regularly if jobs follow without a pause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Optional, Protocol

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Callback, Timer

_PAUSE = 0.2
"""Seconds without a job; a fork in each gap of a series would take longer than the jobs do."""
_MAX_DELAY = 5.0
"""Seconds after which what is left is not kept for a pause any more."""


class _Loop(Protocol):
    def later(self, seconds: float, call: Callback, /) -> Timer: ...


class IdleCleanup:
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
        self._cleanup = tidy
        self._is_urgent = is_urgent
        self._clock = clock
        self._timer: Optional[Timer] = None
        self._dirty_since: Optional[float] = None

    def request(self) -> None:
        """Say that something is left to be tidied up."""
        now = self._clock()
        if self._dirty_since is None:
            self._dirty_since = now
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if now - self._dirty_since > _MAX_DELAY or self._is_urgent():
            self._cleanup()
        else:
            self._timer = self._loop.later(_PAUSE, self._on_idle)

    def continue_if_dirty(self) -> None:
        """Say that what was tidied up is; something may have been left since that began."""
        if self._dirty_since is not None:
            self.request()

    def _on_idle(self) -> None:
        self._timer = None
        self._cleanup()

    def mark_clean(self) -> None:
        """Say that this pause is used: nothing else is left."""
        self._dirty_since = None

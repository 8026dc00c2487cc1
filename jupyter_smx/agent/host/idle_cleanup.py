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
    """Calls ``tidy`` after a pause without new leftovers, and at once if cleanup is overdue or ``is_urgent``.

    ``tidy`` may do nothing because a job runs; it calls :meth:`mark_clean` if it does clean up.
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
        """Record that leftovers need cleanup."""
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
        """Record the end of a cleanup; request another one if there are leftovers since its begin."""
        if self._dirty_since is not None:
            self.request()

    def _on_idle(self) -> None:
        self._timer = None
        self._cleanup()

    def mark_clean(self) -> None:
        """Record that a cleanup begins, so that no leftovers are known."""
        self._dirty_since = None

"""Return the moments of a job by the controller's clock; separate, because the fake hosts of tests use it."""

from __future__ import annotations

import time
from typing import Callable

from jupyter_smx.agent.host.idle_deadline import boot_clock


class ControllerClock:
    """The clock of the controller, by which this machine's clock is ``ahead`` seconds ahead.

    With a difference it goes on with the seconds since boot, so that a job whose host has its clock set while it runs
    keeps its order. Without one both clocks are taken as the same, also when that is set.
    """

    def __init__(
        self,
        ahead: float = 0.0,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], float] = boot_clock,
    ) -> None:
        self._wall = wall
        self._boot = boot
        self._is_same = not ahead
        self._booted_at = wall() - ahead - boot()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._wall() if self._is_same else self._booted_at + self._boot()

    def translate(self, moment: float) -> float:
        """Translate a recent moment of this machine's clock."""
        return moment if self._is_same else self.now() - (self._wall() - moment)

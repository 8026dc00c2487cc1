"""Start a controller and wait until it listens: for kernels, terminals and the Jupyter server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller_launch_errors import START_LIMIT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from jupyter_smx.model.errors import UnavailableError

HANDOVER_LIMIT = 20.0
"""Seconds for a controller in whose favour the one that was started has left, unless its lock is young."""
NOTE_INTERVAL = 10.0
"""Seconds between two sentences that a start still goes on."""
_WAIT_STEP = 0.5
"""Seconds of one call of :meth:`ControllerStarter.is_ready`, so that a program that ends waits no longer."""


def gives_up(waited: float, exit_code: int | None, *, is_owner_starting: bool) -> bool:
    """Return True if a controller that does not listen after ``waited`` seconds is not waited for any longer.

    ``exit_code`` is of the process that was started, None while it lives. With 0 it has left because another process
    has the lock; ``is_owner_starting`` says that this one has it only since a short time.
    """
    if exit_code is None or (exit_code == 0 and is_owner_starting):
        return waited >= START_LIMIT
    return exit_code != 0 or waited >= HANDOVER_LIMIT


def due_note(seconds: float, before: float) -> str:
    """Return the sentence of a start that takes ``seconds``, "" unless one is due since ``before`` seconds."""
    step = int(seconds // NOTE_INTERVAL)
    if step <= int(before // NOTE_INTERVAL):
        return ""
    return f"The controller is still starting, {step * NOTE_INTERVAL:g} s."


class ControllerStarter:
    """Starts at most one controller at a time. ``then`` is what to do after the data folder was changed."""

    def __init__(
        self,
        *,
        then: str = "",
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._then = then
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._is_starting = False
        self._started_at = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        """The controller that was started last, while it lives."""

    def begin(self) -> float:
        """Start a controller unless the one before is still starting, and return the time for :meth:`is_ready`.

        :raises UnavailableError: it cannot be started.
        """
        with self._lock:
            self.reap()
            if self.process is None or not self._is_starting:
                try:
                    self.process = controller_launch.start_controller()
                except OSError as error:
                    raise controller_launch_errors.start_error(error, then=self._then) from error
                self._is_starting, self._started_at = True, self._clock()
        return self._clock()

    def is_ready(self, since: float) -> bool:
        """Wait a moment for a controller that listens, and return True if one does. Blocks.

        :raises UnavailableError: it is not waited for any longer; says why and what to do.
        """
        process = self.process
        if controller_launch.wait_ready(_WAIT_STEP, process):
            self._is_starting = False
            return True
        exit_code = 0 if process is None else process.poll()
        owner = controller_launch_errors.starting_owner(self._wall_clock()) if exit_code == 0 else 0
        if gives_up(self._clock() - since, exit_code, is_owner_starting=owner > 0):
            raise self._give_up_error(process.pid if process is not None and exit_code is None else owner)
        return False

    def seconds(self) -> float | None:
        """Return how long the start takes by now; None if none goes on."""
        is_alive = self.process is not None and self.process.poll() is None
        return self._clock() - self._started_at if self._is_starting and is_alive else None

    def elapsed(self) -> float:
        """Return the seconds since the last start."""
        return self._clock() - self._started_at

    def reap(self) -> None:
        """Collect the exit of the controller, so that no dead process remains."""
        if self.process is not None and self.process.poll() is not None:
            self.process, self._is_starting = None, False

    def _give_up_error(self, pid: int) -> UnavailableError:
        if pid:
            return controller_launch_errors.slow_start_error(pid, self.elapsed())
        self._is_starting = False
        return controller_launch_errors.no_answer_error(then=self._then)

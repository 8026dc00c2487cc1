"""Find, name, kill and await the processes that a job's own process left running."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Callable, List

from jupyter_smx.agent.host.kill_wait import KillWait, pause_after
from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.host.host import Host

EXIT_GRACE = 0.25
"""Seconds in which orphans that received SIGTERM, too, may exit: on a busy machine a process may get its signal only
after its parent is gone, and one with much memory needs time to free it."""


class Orphans:
    """Ends the processes that a job left to the ``host``.

    ``gone`` is called when all have ended, with sentences about those that had to be killed, ``break_off`` after an
    unexpected error. If one cannot be killed, the host is spoilt.
    """

    def __init__(self, host: Host, break_off: Callable[[Exception], None], gone: Callable[[List[str]], None]) -> None:
        self.abort = break_off
        self._host = host
        self._done = gone
        self._grace_end = -math.inf
        self._patience = KillWait()
        self._sentences: List[str] = []

    def terminate(self, *, were_told: bool) -> None:
        """Kill them; if SIGTERM was sent to them already (``were_told``), only those that still run after a moment."""
        if were_told:
            self._grace_end = time.monotonic() + EXIT_GRACE
        self._wait_then_kill()

    @ends_job_on_error
    def _wait_then_kill(self) -> None:
        began = time.monotonic()
        self._host.loop.reap()
        if not self._host.adopted_pids():
            self._done([])
            return
        left = process.tree(self._host.orphan_pids())
        if left and began < self._grace_end:
            self._host.loop.later(pause_after(time.monotonic() - began), self._wait_then_kill)
            return
        self._sentences = host_cleanup.describe_processes(left)
        process.kill(left)
        self._wait_until_gone()

    @ends_job_on_error
    def _wait_until_gone(self) -> None:
        began = time.monotonic()
        self._host.loop.reap()
        left = self._host.adopted_pids()
        # Their children become ours when they exit, but no other processes do.
        everything = process.tree(left)
        if left and self._patience.can_wait(len(everything), began, sum(map(process.cpu_seconds, everything))):
            process.kill(everything)
            self._host.loop.later(pause_after(time.monotonic() - began), self._wait_until_gone)
            return
        if left:
            self._host.unusable_reason = f"process {left[0]} cannot be killed; this host ends."
            self._sentences.append(self._host.unusable_reason)
        self._done(self._sentences)

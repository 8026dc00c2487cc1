"""Schedules the job queue: decides which waiting job is reconciled next, and when a long queue waits for a burst."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import log_and_continue
from jupyter_smx.policy.lifecycle.dependencies import is_waiting_for_dependencies, mark_dependencies_met
from jupyter_smx.policy.scheduling.fair_queue import next_schedule_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.controller.scheduling.preparation import Preparation
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Scheduler:
    """Schedules the waiting jobs; ``reconcile`` does the next step of a job and raises only ``FencedError``."""

    def __init__(self, live_state: LiveState, preparation: Preparation, reconcile: Callable[[Job], None]) -> None:
        self._live_state = live_state
        self._preparation = preparation
        self._reconcile = reconcile
        self._submitted_at = self._scheduled_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def on_submission(self) -> None:
        """Record the moment of a submission."""
        self._submitted_at = self._live_state.monotonic()

    def reconcile_blocked(self) -> None:
        """Reconcile the jobs that wait for others, until no more of them end."""
        ended = True
        while ended:
            # What ends here may end others: a chain of jobs is walked to its last one.
            blocked = self._live_state.job_queue.blocked_jobs()
            self._save_unblocked(blocked)
            for job in blocked:
                if not self._is_ready_to_place(job):
                    self._reconcile(job)
            ended = any(job.id not in self._live_state.jobs for job in blocked)

    def schedule(self) -> None:
        """Place the jobs of the queue until one has to stay in it; later, where submissions arrive in a burst."""
        if self._defer(len(self._live_state.job_queue)):
            return
        full: set[str] = set()
        while engine := self._live_state.job_queue.next_engine(full):
            head = self._live_state.job_queue.head(engine)
            self._reconcile(self._live_state.jobs[head])
            if self._live_state.job_queue.head(engine) == head:
                full.add(engine)

    def close(self) -> None:
        """Schedule nothing any more; requests may still arrive on open connections."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _defer(self, waiting: int) -> bool:
        """Return True if a queue of ``waiting`` jobs has to wait now; a timer then schedules it."""
        now = self._live_state.monotonic()
        due = next_schedule_at(waiting, self._submitted_at, self._scheduled_at)
        if due > now or self._closed:
            if self._timer is None and not self._closed:
                self._timer = asyncio.get_running_loop().call_later(due - now, self._run_deferred)
            return True
        self._scheduled_at = now
        return False

    def _run_deferred(self) -> None:
        self._timer = None
        self.schedule()

    def _save_unblocked(self, blocked: Iterable[Job]) -> None:
        """Save in one write that the jobs whose dependencies are met now wait in the queue."""
        now = self._live_state.clock()
        freed = [
            mark_dependencies_met(job, now)
            for job in blocked
            if self._live_state.job_queue.is_queued(job) and is_waiting_for_dependencies(job)
        ]
        if freed:
            with log_and_continue(_log, "jobs={} could not be queued", f"{freed[0].name} and {len(freed) - 1} more"):
                self._live_state.save(jobs=freed)

    def _is_ready_to_place(self, job: Job) -> bool:
        # A queued job is placed in its turn, but its builds, which take time and no capacity, start before.
        return self._live_state.job_queue.is_queued(job) and self._preparation.is_over(job)

"""Who has a turn when there is room: those whom others let begin stand in line, and the line is called."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import log_and_continue
from jupyter_smx.controller.scheduling.submission_throttle import SubmissionThrottle
from jupyter_smx.policy.lifecycle.dependencies import is_waiting_for_dependencies, mark_dependencies_met

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.controller.scheduling.preparation import Preparation
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Scheduler:
    """Calls the line; ``step`` looks at one job and raises nothing but that another controller took over."""

    def __init__(self, books: LiveState, preparation: Preparation, step: Callable[[Job], None]) -> None:
        self._live_state = books
        self._preparation = preparation
        self._reconcile = step
        self._throttle = SubmissionThrottle(books.monotonic, self.schedule)

    def on_submission(self) -> None:
        """Learn that somebody handed a job in."""
        self._throttle.on_submission()

    def reconcile_blocked(self) -> None:
        """Look at the jobs that come after others, until nothing ends any more."""
        ended = True
        while ended:
            # What ends here may end others: a chain of jobs is walked to its last one.
            held = self._live_state.job_queue.blocked_jobs()
            self._save_unblocked(held)
            for job in held:
                if not self._is_ready_to_place(job):
                    self._reconcile(job)
            ended = any(job.id not in self._live_state.jobs for job in held)

    def schedule(self) -> None:
        """Place those in the line until one has to stay in it; later, where a crowd of wishes comes."""
        if self._throttle.defer(len(self._live_state.job_queue)):
            return
        full: set[str] = set()
        while engine := self._live_state.job_queue.next_engine(full):
            head = self._live_state.job_queue.head(engine)
            self._reconcile(self._live_state.jobs[head])
            if self._live_state.job_queue.head(engine) == head:
                full.add(engine)

    def close(self) -> None:
        """Call nobody any more."""
        self._throttle.close()

    def _save_unblocked(self, held: Iterable[Job]) -> None:
        """Write down at once of all whom nobody holds any more that they stand in line."""
        now = self._live_state.clock()
        freed = [
            mark_dependencies_met(job, now)
            for job in held
            if self._live_state.job_queue.is_queued(job) and is_waiting_for_dependencies(job)
        ]
        if freed:
            with log_and_continue(_log, "{} cannot be let into the line", f"{freed[0].name} and {len(freed) - 1} more"):
                self._live_state.save(jobs=freed)

    def _is_ready_to_place(self, job: Job) -> bool:
        # Who stands in line is called from there, in its turn; but what it has to be built takes time, and no room.
        return self._live_state.job_queue.is_queued(job) and self._preparation.is_over(job)

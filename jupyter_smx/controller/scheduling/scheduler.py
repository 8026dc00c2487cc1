"""Who has a turn when there is room: those whom others let begin stand in line, and the line is called."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import alone
from jupyter_smx.controller.scheduling.submission_throttle import Crowd
from jupyter_smx.policy.lifecycle.dependencies import is_said_to_wait, let_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_smx.controller.scheduling.preparation import Preparation
    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Turns:
    """Calls the line; ``step`` looks at one job and raises nothing but that another controller took over."""

    def __init__(self, books: Books, preparation: Preparation, step: Callable[[Job], None]) -> None:
        self._books = books
        self._preparation = preparation
        self._step = step
        self._crowd = Crowd(books.steady, self.call)

    def wish_came(self) -> None:
        """Learn that somebody handed a job in."""
        self._crowd.wish_came()

    def look_at_held(self) -> None:
        """Look at the jobs that come after others, until nothing ends any more."""
        ended = True
        while ended:
            # What ends here may end others: a chain of jobs is walked to its last one.
            held = self._books.line.held()
            self._let_in(held)
            for job in held:
                if not self._has_only_to_wait(job):
                    self._step(job)
            ended = any(job.id not in self._books.jobs for job in held)

    def call(self) -> None:
        """Place those in the line until one has to stay in it; later, where a crowd of wishes comes."""
        if self._crowd.puts_off(len(self._books.line)):
            return
        full: set[str] = set()
        while engine := self._books.line.next_engine(full):
            head = self._books.line.head(engine)
            self._step(self._books.jobs[head])
            if self._books.line.head(engine) == head:
                full.add(engine)

    def close(self) -> None:
        """Call nobody any more."""
        self._crowd.close()

    def _let_in(self, held: Iterable[Job]) -> None:
        """Write down at once of all whom nobody holds any more that they stand in line."""
        now = self._books.clock()
        freed = [let_in(job, now) for job in held if self._books.line.stands(job) and is_said_to_wait(job)]
        if freed:
            with alone(_log, "{} cannot be let into the line", f"{freed[0].name} and {len(freed) - 1} more"):
                self._books.save(jobs=freed)

    def _has_only_to_wait(self, job: Job) -> bool:
        # Who stands in line is called from there, in its turn; but what it has to be built takes time, and no room.
        return self._books.line.stands(job) and self._preparation.is_over(job)

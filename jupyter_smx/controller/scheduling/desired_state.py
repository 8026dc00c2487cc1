"""Goals: what a user, a time limit or the spot market wants of a job that is there; the reconciler brings it about."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import alone
from jupyter_smx.controller.unexpected import unforeseen
from jupyter_smx.model.status import ENDING, Goal
from jupyter_smx.policy.lifecycle import spot, transitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Goals:
    """Sets goals; each is on the disk before anything is done for it, so that no interruption is lost or doubled.

    ``step`` does the first step towards one, ``is_ending`` says of a job that its code has ended on every host,
    ``draw`` gives numbers from 0 to 1, without 1.
    """

    def __init__(
        self,
        books: Books,
        engine_of: Callable[[str], Engine],
        step: Callable[[str], None],
        is_ending: Callable[[Job], bool],
    ) -> None:
        self._books = books
        self._engine_of = engine_of
        self._step = step
        self._is_ending = is_ending
        self.draw: Callable[[], float] = random.random
        self._looked_at: float | None = None

    def end(self, job: Job, goal: Goal = Goal.STOP) -> Job:
        """Let a job end, for a user or a limit; what is over, or ends already, stays as it is."""
        live = self._books.jobs.get(job.id)
        if live is None or live.goal in ENDING:
            return live or job
        return self._set(transitions.end_by(live, goal, self._books.clock()))

    def interrupt(self, job: Job) -> Job:
        """Take the hosts of a spot job away; one that is being interrupted stays as it is.

        :raises ValidationError: it is no spot job.
        :raises ResourceInUseError: no hosts work for it now.
        """
        live = self._books.jobs.get(job.id, job)
        if live.goal is Goal.INTERRUPT:
            return live
        spot.check_interruption(live, self._books.cluster_of(live), is_ending=self._is_ending(live))
        return self._set(transitions.interrupt(live, self._books.clock()))

    def _set(self, wanted: Job) -> Job:
        self._books.save(jobs=[wanted])
        self._step(wanted.id)
        return self._books.jobs.get(wanted.id) or self._books.job(wanted.id)

    def look(self) -> None:
        """End what waited for too long, and interrupt whom the engine's rate strikes."""
        now, steady = self._books.clock(), self._books.steady()
        since = 0.0 if self._looked_at is None else steady - self._looked_at
        self._looked_at = steady
        for job in [*self._books.jobs.values()]:
            # One whose engine cannot be made, say, keeps no other from its limit.
            with (
                alone(_log, "The limits of job {} cannot be looked at", job.name),
                unforeseen(_log, f"A look at the limits of {job.name}"),
            ):
                self._look_at(job, now, since)

    def _look_at(self, job: Job, now: float, since: float) -> None:
        if self._is_ending(job):
            return  # its code has ended as it did, and only its outputs are on their way
        if spot.wait_is_over(job, now):
            self.end(job, Goal.EXPIRE)
        elif spot.may_be_interrupted(job, self._books.cluster_of(job)) and self._is_struck(job, since):
            self.interrupt(job)

    def _is_struck(self, job: Job, seconds: float) -> bool:
        rate = self._engine_of(job.spec.engine).interruptions_per_hour
        return rate > 0 and spot.strikes(rate, seconds, self.draw())

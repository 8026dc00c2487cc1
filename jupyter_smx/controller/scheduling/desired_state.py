"""Set the desired state of jobs for users, time limits and the spot market; the reconciler enforces it."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from jupyter_smx.controller.errors import log_and_continue, wrap_unexpected
from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState
from jupyter_smx.policy.lifecycle import spot, transitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class DesiredStateSetter:
    """Sets goals; each is recorded before any action for it, so that no interruption is lost or doubled.

    ``reconcile`` does the first step towards one, ``is_ending`` returns True if a job's code has ended on every host,
    ``draw`` returns random numbers from 0 to 1, without 1.
    """

    def __init__(
        self,
        live_state: LiveState,
        engine_of: Callable[[str], Engine],
        reconcile: Callable[[str], None],
        is_ending: Callable[[Job], bool],
    ) -> None:
        self._live_state = live_state
        self._engine_of = engine_of
        self._reconcile = reconcile
        self._is_ending = is_ending
        self.draw: Callable[[], float] = random.random
        self._enforced_at: float | None = None
        # Called with the cluster of a job that does not wait for unreachable hosts.
        self.on_abandon: Callable[[str], None] = lambda _cluster: None

    def stop(self, job: Job, goal: DesiredState = DesiredState.STOP) -> Job:
        """Set the goal of a job to end, for a user or a limit; a job that is over, or ending, is not changed."""
        live = self._live_state.jobs.get(job.id)
        if live is None or live.goal in TERMINAL_GOALS:
            return live or job
        return self._set(transitions.set_terminal_goal(live, goal, self._live_state.clock()))

    def abandon(self, job: Job) -> Job:
        """Stop a job and do not wait for hosts that cannot be reached."""
        live = self._live_state.jobs.get(job.id)
        if live is None:
            return job
        if live.goal not in TERMINAL_GOALS:
            live = transitions.set_terminal_goal(live, DesiredState.STOP, self._live_state.clock())
        stopped = self._set(transitions.abandon(live))
        if stopped.cluster:
            self.on_abandon(stopped.cluster)
        return self._live_state.jobs.get(job.id) or self._live_state.job(job.id)

    def interrupt(self, job: Job) -> Job:
        """Interrupt a spot job; one that is being interrupted already is not changed.

        :raises ValidationError: it is no spot job.
        :raises ResourceInUseError: it has no running hosts now.
        """
        live = self._live_state.jobs.get(job.id, job)
        if live.goal is DesiredState.INTERRUPT:
            return live
        spot.check_interruption(live, self._live_state.cluster_of(live), is_ending=self._is_ending(live))
        return self._set(transitions.interrupt(live, self._live_state.clock()))

    def _set(self, wanted: Job) -> Job:
        self._live_state.save(jobs=[wanted])
        self._reconcile(wanted.id)
        return self._live_state.jobs.get(wanted.id) or self._live_state.job(wanted.id)

    def enforce_all(self) -> None:
        """End jobs that waited for too long, and interrupt spot jobs at the engine's rate."""
        now, monotonic = self._live_state.clock(), self._live_state.monotonic()
        since = 0.0 if self._enforced_at is None else monotonic - self._enforced_at
        self._enforced_at = monotonic
        for job in [*self._live_state.jobs.values()]:
            # An error for one job, such as an engine that cannot be created, must not keep others from their limits.
            with (
                log_and_continue(_log, "job={} limit check failed", job.name),
                wrap_unexpected(_log, f"Checking the limits of {job.name}"),
            ):
                self._enforce(job, now, since)

    def _enforce(self, job: Job, now: float, since: float) -> None:
        if self._is_ending(job):
            return  # its code has ended as it did, and only its outputs are on their way
        if spot.is_wait_over(job, now):
            self.stop(job, DesiredState.EXPIRE)
        elif spot.can_be_interrupted(job, self._live_state.cluster_of(job)) and self._should_interrupt(job, since):
            self.interrupt(job)

    def _should_interrupt(self, job: Job, seconds: float) -> bool:
        rate = self._engine_of(job.spec.engine).interruptions_per_hour
        return rate > 0 and spot.is_interruption_due(rate, seconds, self.draw())

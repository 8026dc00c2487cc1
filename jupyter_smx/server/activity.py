"""Whether jobs are in progress, so that nobody culls the server under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.status import OVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import JobSummary

FORGET_AFTER = 600.0
"""Seconds without a word from the controller after which its jobs no longer keep the server alive."""


class Activity:
    """The ids of the jobs in progress, as the controller last told; times are seconds of any one clock."""

    def __init__(self) -> None:
        self._jobs: set[str] = set()
        self._heard_at = 0.0

    def listed(self, jobs: Iterable[JobSummary], now: float) -> None:
        """Take a listing as the whole truth."""
        self._jobs = {job.id for job in jobs if job.status not in OVER}
        self._heard_at = now

    def changed(self, events: Iterable[Event], now: float) -> None:
        """Take changes, oldest first."""
        for event in events:
            if event.job is None:
                continue
            if event.job.status in OVER:
                self._jobs.discard(event.job.id)
            else:
                self._jobs.add(event.job.id)
        self._heard_at = now

    def in_progress(self, now: float) -> int:
        """Count the jobs in progress; none when the controller has been silent for too long."""
        return len(self._jobs) if now - self._heard_at <= FORGET_AFTER else 0

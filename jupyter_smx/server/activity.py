"""Report whether jobs are in progress, so that no culler stops the server meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.status import FINAL_STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import JobSummary

STALE_AFTER = 600.0
"""Seconds without a message from the controller after which its jobs no longer keep the server alive."""


class Activity:
    """The ids of the jobs in progress, from the controller's last message; times are seconds of any one clock."""

    def __init__(self) -> None:
        self._jobs: set[str] = set()
        self._updated_at = 0.0

    def replace_all(self, jobs: Iterable[JobSummary], now: float) -> None:
        """Take a listing as the whole truth."""
        self._jobs = {job.id for job in jobs if job.status not in FINAL_STATUSES}
        self._updated_at = now

    def apply_changes(self, events: Iterable[Event], now: float) -> None:
        """Take changes, oldest first."""
        for event in events:
            if event.job is None:
                continue
            if event.job.status in FINAL_STATUSES:
                self._jobs.discard(event.job.id)
            else:
                self._jobs.add(event.job.id)
        self._updated_at = now

    def count_in_progress(self, now: float) -> int:
        """Count the jobs in progress; none when the controller has been silent for too long."""
        return len(self._jobs) if now - self._updated_at <= STALE_AFTER else 0

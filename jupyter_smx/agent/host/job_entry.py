"""A job in the table of its host: a running one, which a higher layer implements, or an ended one."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import JobView


class JobEntry(abc.ABC):
    """Interface of a job for its host and controllers, while it runs or after its end."""

    id: str
    lease: int
    phase: str

    @abc.abstractmethod
    def stop(self, grace: float, cause: str) -> None:
        """End it: after ``grace`` seconds by force."""

    @abc.abstractmethod
    def interrupt(self, grace: float) -> None:
        """End it within ``grace`` seconds, because its machine is taken away."""

    @abc.abstractmethod
    def view(self) -> JobView:
        """Return the job's part of the answer to ``hello``."""

    @abc.abstractmethod
    def end_with_host(self, reason: str) -> None:
        """Write the record of a job whose host ends before it does."""


class EndedJob(JobEntry):
    """A job that is over, until it is forgotten. Has only its final state, because warm hosts have thousands."""

    phase = "ended"

    def __init__(self, job: JobEntry) -> None:
        self.id = job.id
        self.lease = job.lease
        self._view = cast("JobView", dict(job.view(), phase=self.phase))

    def stop(self, grace: float, cause: str) -> None:
        """Do nothing: its record has its end already."""

    def interrupt(self, grace: float) -> None:
        """Do nothing, likewise."""

    def view(self) -> JobView:
        """Return the job's part of the answer to ``hello``."""
        return self._view

    def end_with_host(self, reason: str) -> None:
        """Do nothing: its record is written."""

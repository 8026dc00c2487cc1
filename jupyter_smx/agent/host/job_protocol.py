"""What a host knows of a job: everything while it runs, and what a greeting says when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Protocol, Union

if TYPE_CHECKING:
    from jupyter_smx.agent.host.termination import Termination


class HostedJob(Protocol):
    """What a host knows of a job, so that it need not know how one is done."""

    id: str
    lease: int
    spec: Dict[str, Any]
    phase: str
    termination: Termination
    errors: List[str]
    at: Dict[str, Optional[float]]

    def start(self) -> None:
        """Begin."""

    def stop(self, grace: float, cause: str) -> None:
        """End it: after ``grace`` seconds by force."""

    def record(self, artifacts: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Give the record of the end."""

    def view(self) -> Dict[str, Any]:
        """Give what a greeting says of it."""


class EndedJob:
    """A job that is over, until it is forgotten; what it took to run it may go, and a warm host has thousands."""

    phase = "ended"

    def __init__(self, job: HostedJob) -> None:
        self.id = job.id
        self.lease = job.lease
        self._view = dict(job.view(), phase=self.phase)

    def stop(self, grace: float, cause: str) -> None:
        """Do nothing: its record says how it ended."""

    def view(self) -> Dict[str, Any]:
        """Give what a greeting says of it."""
        return self._view


JobEntry = Union[HostedJob, EndedJob]

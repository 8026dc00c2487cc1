"""What the logs and metrics of jobs are made from: records, lines and values, as the controller answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.results.log_lines import LogLines
from jupyter_smx.model.results.progress import JobMetrics
from jupyter_smx.model.results.usage import JobUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.aws.controller_client import ControllerClient


class JobRecords(Protocol):
    """Reads what is recorded of jobs."""

    async def find(self, name: str) -> Job | None:
        """Return the job of exactly this name, or None."""

    async def summaries(self, limit: int, before: str = "") -> tuple[JobSummary, ...]:
        """List a page of jobs, newest first; ``before`` is the id of the last job of the page before it."""

    async def log_lines(self, job_id: str, query: Mapping[str, str]) -> LogLines:
        """Read lines of a log; ``query`` has the parameters of the controller's route."""

    async def metrics(self, job_id: str, attempt: int) -> JobMetrics:
        """Return the values that one run of a job printed."""

    async def usage(self, job_id: str, attempt: int) -> JobUsage:
        """Return the resource usage of one run of a job."""


class ControllerRecords:
    """Reads the records of the controller, which is started if none runs."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

    async def find(self, name: str) -> Job | None:
        """Return the job of exactly this name, or None.

        :raises SmxError: the controller cannot be reached.
        """
        try:
            job = await self._controller.request("get_job", Job, name)
        except ResourceNotFoundError:
            return None
        return job if job.name == name else None  # an id, or a base name, also finds a job

    async def summaries(self, limit: int, before: str = "") -> tuple[JobSummary, ...]:
        """List a page of jobs, newest first; ``before`` is the id of the last job of the page before it."""
        return await self._controller.summaries(limit, before)

    async def log_lines(self, job_id: str, query: Mapping[str, str]) -> LogLines:
        """Read lines of a log; ``query`` has the parameters of the controller's route."""
        return await self._controller.request("read_log_lines", LogLines, job_id, query=query)

    async def metrics(self, job_id: str, attempt: int) -> JobMetrics:
        """Return the values that one run of a job printed."""
        return await self._controller.request("get_metrics", JobMetrics, job_id, query={"attempt": str(attempt)})

    async def usage(self, job_id: str, attempt: int) -> JobUsage:
        """Return the resource usage of one run of a job."""
        return await self._controller.request("get_usage", JobUsage, job_id, query={"attempt": str(attempt)})


class ListedJob(NamedTuple):
    """What never changes of a job."""

    name: str
    kind: str
    created_at: float


class JobNames:
    """The names of all jobs by id, read page by page until a job that is in it.

    Jobs that were deleted stay in it; their records are not found.
    """

    PAGE = 200

    def __init__(self, records: JobRecords) -> None:
        self._records = records
        self._jobs: dict[str, ListedJob] = {}

    async def update(self) -> list[ListedJob]:
        """Return all jobs, sorted by name; the newest of one name only."""
        found: dict[str, ListedJob] = {}
        before = ""
        while page := await self._records.summaries(self.PAGE, before):
            found |= {job.id: ListedJob(job.name, job.kind, job.created_at) for job in page}
            before = page[-1].id
            if len(page) < self.PAGE or any(job.id in self._jobs for job in page):
                break
        self._jobs |= found
        by_name: dict[str, ListedJob] = {}
        for job in sorted(self._jobs.values(), key=lambda job: job.created_at):
            by_name[job.name] = job
        return sorted(by_name.values(), key=lambda job: f"{job.name}/")

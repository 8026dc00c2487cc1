"""Jobs with logs that a controller collected, without the controller: its reader of lines reads real files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from jupyter_smx.aws.service import Caller
from jupyter_smx.controller.telemetry.log_copy import LogCopy
from jupyter_smx.controller.telemetry.log_lines import Selection, read_lines
from jupyter_smx.controller.telemetry.log_times import times_path
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.records.job import Attempt, Job, JobSummary
from jupyter_smx.model.records.log_stream import run_begins
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.progress import JobMetrics
from jupyter_smx.model.results.usage import HostUsage, JobUsage
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.lifecycle.attempts import is_over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.model.results.log_lines import LogLines
    from jupyter_smx.model.results.progress import MetricSeries

CALLER = Caller("SMXKEY", "eu-west-1")
BEGIN = 1_700_000_000
"""Second in which the first job begins."""


class RecordedJobs:
    """Stands where the controller is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs: dict[str, Job] = {}
        self.series: dict[tuple[str, int], tuple[MetricSeries, ...]] = {}
        self.used: dict[tuple[str, int], tuple[HostUsage, ...]] = {}
        self.requests: list[str] = []

    def add(self, name: str, *, kind: Literal["train", "process"] = "train", hosts: int = 1, **fields: object) -> Job:
        """Record a job that runs."""
        began = float(BEGIN + 100 * len(self.jobs))
        group = InstanceGroup(name="a", instance_type="local", instance_count=hosts)
        spec = JobSpec(kind=kind, source="", base_name="x", instance_groups=(group,))
        values = {"created_at": began, "started_at": began, "state": SecondaryStatus.TRAINING} | fields
        job = Job(id=f"{len(self.jobs):016x}", name=name, spec=spec, **values)  # type: ignore[arg-type]
        self.jobs[job.id] = job
        return job

    def write(self, name: str, content: bytes, at: int, host: str = "algo-1") -> None:
        """Let bytes of the log arrive, ``at`` milliseconds after :data:`BEGIN`."""
        job = self._job(name)
        copy = LogCopy(path := self._log(job, host, job.attempt), 0, times=times_path(path))
        copy.add_time(BEGIN * 1000 + at)
        copy.write(content, copy.size() + len(content))
        copy.close()

    def retry(self, name: str) -> None:
        """Begin the next run."""
        job = self._job(name)
        over = Attempt(
            number=job.attempt, cluster="c", reason="lost", ended_at=0.0, started_at=run_begins(job)[job.attempt]
        )
        self.jobs[job.id] = replace(
            job, attempt=job.attempt + 1, attempts=(*job.attempts, over), state=SecondaryStatus.STARTING
        )

    def end(self, name: str) -> None:
        """Complete a job."""
        job = self._job(name)
        self.jobs[job.id] = replace(job, state=SecondaryStatus.COMPLETED, ended_at=job.created_at + 60)

    def _job(self, name: str) -> Job:
        return next(job for job in self.jobs.values() if job.name == name)

    def _log(self, job: Job, host: str, attempt: int) -> Path:
        return JobFolder(self.folder, job.id).log(host, attempt)

    async def find(self, name: str) -> Job | None:
        return next((job for job in self.jobs.values() if job.name == name), None)

    async def summaries(self, limit: int, before: str = "") -> tuple[JobSummary, ...]:
        self.requests.append("summaries")
        newest_first = sorted(self.jobs.values(), key=lambda job: job.id, reverse=True)
        return tuple(summary_of(job) for job in newest_first if not before or job.id < before)[:limit]

    async def log_lines(self, job_id: str, query: Mapping[str, str]) -> LogLines:
        self.requests.append("log_lines")
        job = self.jobs[job_id]
        numbers = {name: int(value) for name, value in query.items() if name not in ("host", "from_end")}
        attempt = numbers.pop("attempt")
        selected = Selection(**numbers, from_end=query.get("from_end") == "1")
        began = run_begins(job).get(attempt) or job.created_at
        path = self._log(job, query["host"], attempt)
        page = read_lines(path, selected, run_begin=int(began * 1000), is_final=is_over(job, attempt))
        return replace(page, attempt=attempt, attempts=job.attempt)

    async def metrics(self, job_id: str, attempt: int) -> JobMetrics:
        series: Sequence[MetricSeries] = self.series.get((job_id, attempt), ())
        return JobMetrics(job=self.jobs[job_id].name, series=tuple(series), attempt=attempt)

    async def usage(self, job_id: str, attempt: int) -> JobUsage:
        return JobUsage(job=self.jobs[job_id].name, hosts=self.used.get((job_id, attempt), ()), attempt=attempt)

"""The summary of a job in lists, derived from its record alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.records.job import Job, JobSummary, failing_host
from jupyter_smx.model.results.progress import JobTelemetry
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.status import SecondaryStatus, Status, message_of

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import HostEnd

OUT_OF_MEMORY = "out of memory"
"""Title of a failure for lack of memory, instead of a class of exceptions."""


def summary_of(
    job: Job, *, queue_position: int | None = None, cost: float | None = None, outlook: JobTelemetry | None = None
) -> JobSummary:
    """Return the summary of ``job``: no source, no path, no value of a variable. ``cost`` is US dollars.

    ``outlook`` has facts that are not on its record; without it, only the record is used.
    """
    outlook = outlook or JobTelemetry(progress=job.progress, metrics=job.metrics)
    submitted = job.spec.submitted_at or job.timings.get("magic") or job.created_at
    first_line = job.timings.get("first_line")
    end = failing_host(job.hosts)
    exception = end.exception if end else None
    return JobSummary(
        id=job.id,
        name=job.name,
        base_name=base_name_of(job),
        kind=job.spec.kind,
        engine=job.spec.engine,
        instances=job.spec.instances(),
        status=job.status(),
        secondary_status=job.state,
        message=_message(job),
        created_at=job.created_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        pool=job.cluster,
        start=job.why.start if job.why else "",
        queue_position=queue_position,
        warm_pool_status=job.warm_pool.status.value if job.warm_pool else "",
        first_line_seconds=None if first_line is None else max(0.0, first_line - submitted),
        cost=cost,
        array=job.spec.array,
        attempt=job.attempt,
        attempts=job.max_attempts(),
        failure_type=_failure_type(end),
        failure_line=exception.line if exception else None,
        progress=outlook.progress,
        metrics={metric.name: metric.value for metric in outlook.metrics},
        expectation=outlook.expectation,
        expected_start_at=outlook.start_at,
        usage=outlook.usage,
        peak=job.peak,
        spot=job.spec.spot,
        image=job.image or (Image(name=job.spec.image, id="") if job.spec.image else None),
        modified_at=job.last_modified_at(),
    )


def base_name_of(job: Job) -> str:
    """Return the user's name of the job, without the digits that make it unique."""
    return job.spec.base_name or job.name.rpartition("-")[0] or job.name


def _message(job: Job) -> str:
    if job.status() is Status.FAILED and job.failure_text():
        return job.failure_text()
    if job.spec.after and job.state is SecondaryStatus.PENDING and job.why is not None:
        return job.why.sentence
    said = job.transitions[-1].status_message if job.transitions else ""
    return said or message_of(job.state)


def _failure_type(end: HostEnd | None) -> str:
    if end is None:
        return ""
    if end.is_out_of_memory():
        return OUT_OF_MEMORY
    return end.exception.type if end.exception else ""

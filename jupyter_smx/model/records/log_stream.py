"""Names of a job's logs in the form of SageMaker's streams: one for each host of each run of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.spec.instance import groups_by_host

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

LOG_GROUPS = {"train": "/aws/sagemaker/TrainingJobs", "process": "/aws/sagemaker/ProcessingJobs"}


class LogStream(Struct, frozen=True, kw_only=True):
    """Output of one host in one run: ``name`` is ``JOB/algo-1-EPOCH``, with the epoch second of its beginning.

    ``group`` is CloudWatch's log group of such jobs. The host's ``instance_group`` is in no name, as on SageMaker.
    """

    name: str
    group: str
    host: str
    instance_group: str
    attempt: int = 1


def streams_of(job: Job) -> tuple[LogStream, ...]:
    """Name the logs of a job, run by run; a run that did not begin has none."""
    return tuple(
        LogStream(
            name=f"{job.name}/{host}-{int(when)}",
            group=LOG_GROUPS[job.spec.kind],
            host=host,
            instance_group=owner.name,
            attempt=number,
        )
        for number, when in sorted(run_begins(job).items())
        if when is not None
        for host, owner in groups_by_host(job.spec.instance_groups).items()
    )


def run_begins(job: Job) -> dict[int, float | None]:
    """Return when each run of a job began, seconds since the epoch; None if it did not."""
    return {attempt.number: attempt.started_at for attempt in job.attempts} | {job.attempt: _began(job)}


def _began(job: Job) -> float | None:
    """Return when the current run began; for a first run that was not observed, the record has it at the end."""
    began = attempt_started_at(job)
    return job.started_at if began is None and not job.attempts else began

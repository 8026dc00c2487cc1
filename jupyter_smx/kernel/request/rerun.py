"""Where this side of the socket finds what a job needs in order to run once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx import controller_launch, rerun_spec

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec


def spec_again(record: Job, submitted_at: float) -> JobSpec:
    """Give the wish of a job for another run.

    :raises ResourceNotFoundError: the variables that it was sent, or its folder of code, are gone.
    """
    return rerun_spec.spec_again(record, submitted_at, kept_source(record))


def kept_source(record: Job) -> Path:
    """Give the archive of a job's folder of code that lies with its outputs, as long as the job is known."""
    return controller_launch.data_dir() / "jobs" / record.id / "source.tar.gz"

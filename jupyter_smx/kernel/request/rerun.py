"""Where this side of the socket finds what a job needs in order to run once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx import controller_launch, rerun_spec

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec


def spec_for_rerun(record: Job, submitted_at: float) -> JobSpec:
    """Give the wish of a job for another run.

    :raises ResourceNotFoundError: the variables that it was sent, or its folder of code, are gone.
    """
    return rerun_spec.make_rerun_spec(record, submitted_at, source_archive(record))


def source_archive(record: Job) -> Path:
    """Give the archive of a job's folder of code that lies with its outputs, as long as the job is known."""
    return controller_launch.data_dir() / "jobs" / record.id / "source.tar.gz"

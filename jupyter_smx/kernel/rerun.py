"""A job once more: the same wish, to be handed in under a new id."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx import launch
from jupyter_smx.model.errors import ResourceNotFoundError

if TYPE_CHECKING:
    from jupyter_smx.model.job import Job
    from jupyter_smx.model.spec import JobSpec


def spec_again(record: Job, submitted_at: float) -> JobSpec:
    """Give the wish of a job for another run: same code, same variables, same hosts.

    :raises ResourceNotFoundError: the variables that it was sent, or its folder of code, are gone.
    """
    spec = record.spec
    if spec.send is not None:
        _renew(record.name, spec.send.path, "variables that it was sent are", "Run its cell again.")
    if spec.source_dir is not None:
        _bring_back(record, Path(spec.source_dir.path))
        _renew(record.name, spec.source_dir.path, "folder of code that it had is", "Hand it in anew.")
    return msgspec.structs.replace(spec, submitted_at=submitted_at)


def _renew(name: str, path: str, what: str, cure: str) -> None:
    try:
        os.utime(path)  # unused files are deleted when they are a day old, so it begins to be young again
    except OSError as error:
        raise ResourceNotFoundError(
            f"{name} cannot run again: the {what} gone ({error.strerror}).",
            field="send",
            value=path,
            rule="They are kept for a day after the last job that used them.",
            cure=cure,
        ) from error


def kept_source(record: Job) -> Path:
    """Give the archive of a job's folder of code that lies with its outputs, as long as the job is known."""
    return launch.data_dir() / "jobs" / record.id / "source.tar.gz"


def _bring_back(record: Job, path: Path) -> None:
    """Give the archive the name again under which jobs find it, from the one that the job's own folder keeps."""
    if not path.exists() and kept_source(record).exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(kept_source(record), path)

"""Build the request to run a job again: the same request under a new id."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.job_spec import JobSpec


def spec_for_rerun(record: Job, submitted_at: float) -> JobSpec:
    """Give the request of a job for another run.

    :raises ResourceNotFoundError: its sent variables, its folder of code, or the objects of its manifests are gone.
    """
    return make_rerun_spec(record, submitted_at, source_archive(record))


def source_archive(record: Job) -> Path:
    """Give the archive of a job's folder of code that lies with its outputs, as long as the job is known."""
    return controller_launch.jobs_dir() / record.id / "source.tar.gz"


def make_rerun_spec(record: Job, submitted_at: float, kept_source: Path) -> JobSpec:
    """Give the request of a job for another run: same code, same variables, same hosts, and no exact name.

    Variables that lead clients of AWS to the front have its present address and key.

    ``kept_source`` is the archive of the job's folder of code that lies with its outputs.

    :raises ResourceNotFoundError: its sent variables, its folder of code, or the objects of its manifests are gone.
    :raises UnavailableError: the disk does not take its folder of code now.
    """
    spec = record.spec
    _check_manifests(record)
    for sent in (spec.shared, spec.send):
        if sent is not None and not touch(sent.path):
            raise ResourceNotFoundError(
                f"{record.name} cannot run again: its sent variables were deleted.",
                field="send",
                value=sent.path,
                rule="Sent variables are kept for a day after the last job that used them.",
                cure="Run its cell again.",
            )
    if spec.source_dir is not None:
        try:
            _restore_source(kept_source, Path(spec.source_dir.path))
        except OSError as error:
            raise UnavailableError(
                f"{record.name} cannot run again now: its --source-dir folder cannot be restored ({error.strerror}).",
                field="source_dir",
                value=spec.source_dir.path,
                cure="Free some space, and check that the folder is writable.",
                transient=True,
            ) from error
        if not touch(spec.source_dir.path):
            raise ResourceNotFoundError(
                f"{record.name} cannot run again: its --source-dir folder was deleted.",
                field="source_dir",
                value=spec.source_dir.path,
                rule="The folder is stored with the files of the job.",
                cure=f"Submit the job again from {spec.source_dir.folder or 'its folders of code'}.",
            )
    return _renew_front(msgspec.structs.replace(spec, submitted_at=submitted_at, array=None, job_name=""))


def _check_manifests(record: Job) -> None:
    """Check that the objects of manifests that the front for clients of AWS linked are still there.

    :raises ResourceNotFoundError: they were deleted with the job of the first run.
    """
    from jupyter_smx.aws_endpoint.request_folder import is_manifest_input  # noqa: PLC0415 - kernels load this module

    for channel in record.spec.channels:
        source = Path(channel.source)
        if is_manifest_input(source) and not source.is_dir():
            raise ResourceNotFoundError(
                f"{record.name} cannot run again: the objects of the manifest of channel {channel.name} were deleted "
                "with the first job.",
                field="channels",
                value=channel.source,
                rule="The objects of a manifest are stored with the job that its client created.",
                cure="Create the job again with its client.",
            )


def _renew_front(spec: JobSpec) -> JobSpec:
    """Give clients of AWS in the job the front's present address and key, or a note if it has none or does not run."""
    if not spec.environment.get(controller_launch.AWS_VARIABLES):
        return spec
    from jupyter_smx.aws_endpoint import endpoint_file, environment, process  # noqa: PLC0415 - few jobs need it

    endpoint = endpoint_file.read_endpoint()
    note = ""
    if endpoint is None:
        note = (
            "Clients of AWS in this job reach AWS, because the front that created the first job has no port any more."
        )
    elif process.find_front() is None:
        note = "Clients of AWS in this job reach no server until the front runs. Start it: jupyter smx aws start"
    return msgspec.structs.replace(
        spec,
        environment=environment.renew_variables(spec.environment, endpoint),
        notes=tuple(dict.fromkeys((*spec.notes, *filter(None, (note,))))),
    )


def touch(path: str) -> bool:
    """Mark a file as used, since unused ones are deleted when they are a day old; False when it is gone.

    The time of its last reading says so. The time of its last writing stays, which tells whether it was changed.
    """
    try:
        os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))  # noqa: PTH116 - as text
    except OSError:
        return False
    return True


def _restore_source(kept: Path, path: Path) -> None:
    """Give the archive the name again under which jobs find it, from the one that the job's own folder keeps."""
    if path.exists() or not kept.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(kept, path)
    except FileExistsError:
        return  # a kernel or a shell that runs it again, too, was faster
    except OSError:  # another disk, or one that gives no second names
        with suppress(FileNotFoundError):  # the job is deleted meanwhile, and its archive with it
            _copy(kept, path)


def _copy(kept: Path, path: Path) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    part = Path(name)
    try:
        shutil.copyfile(kept, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

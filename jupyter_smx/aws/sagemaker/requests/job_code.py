"""Read and pack the code of a translated request, so that it becomes a job request. All of it blocks."""

from __future__ import annotations

import platform
import posixpath
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.kernel.request.code_files import RequirementsPathError
from jupyter_smx.kernel.request.request import JobRequest, SubmissionContext
from jupyter_smx.kernel.request.script import is_archive_or_url
from jupyter_smx.kernel.request.source_copy import copy_file, copy_source
from jupyter_smx.kernel.request.source_dir import pack
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest
    from jupyter_smx.kernel.request.code_files import CodeFiles
    from jupyter_smx.model.spec.job_spec import JobSpec

Interpreters = Literal["local", "remote"]


def build_spec(
    found: TranslatedRequest, folder: Path, submitted_at: float, interpreters: Interpreters = "local"
) -> JobSpec:
    """Build the job request; its code is packed under the name of its content.

    Each ``fit`` of an estimator sends another archive, since it has the time in it, with the same members: packed
    again they have one name, so that hosts have them already. ``folder`` is the job's working directory in its record.

    :raises SmxError: the code cannot be read, or is no code that a job can run.
    """
    source, entry_point, copy = found.code.source, found.code.entry_point, None
    if is_archive_or_url(source):
        copy = copy_source(source)
        source = copy.folder
    elif not source and is_archive_or_url(entry_point):
        copy = copy_file(entry_point)  # the script of a ScriptProcessor in a real bucket
        entry_point = str(Path(copy.folder, posixpath.basename(entry_point)))
    request = JobRequest(
        kind="process" if found.kind == "process" else "train",
        fields=found.fields,
        groups=found.groups,
        distribution=found.distribution,
        environment=found.environment,
        channels=found.channels,
        outputs=found.outputs,
        source_dir=source,
        source_copy=copy,
        entry_point=entry_point,
        command=found.code.command,
        arguments=found.code.arguments,
        python=found.python,
        metrics=found.metrics,
        spelling="keyword",
    )
    here = SubmissionContext(
        python=sys.executable,
        python_version=".".join(platform.python_version_tuple()[:2]),
        folder=folder,
        interpreters_of=lambda _engine: interpreters,
    )
    try:
        spec = request.build_spec("", 0, here, submitted_at)
    except RequirementsPathError as error:
        raise _requirements_error(error.value) from None
    spec = replace(spec, hyperparameters=dict(found.hyperparameters), notes=found.notes)
    return _with_files(spec, request.code_files())


def _requirements_error(line: str) -> ValidationError:
    """Return the refusal of a path in the code, without the archive: a user of an SDK wrote ``source_dir`` only."""
    return ValidationError(
        f"requirements.txt: {line!r} is a path in source_dir.",
        field="requirements",
        value=line,
        rule="Packages are installed once for all jobs with equal requirements, before the code is unpacked.",
        cure="Name an absolute path of this machine, as --find-links /home/me/wheels, or packages of an index.",
    )


def _with_files(spec: JobSpec, code: CodeFiles) -> JobSpec:
    if code.is_empty():
        return spec
    payloads = controller_launch.data_dir() / "payloads"
    found = pack(code.folder, payloads, spec.entry_point, sends_all=True)
    return replace(spec, source_dir=replace(found, folder=code.origin()))

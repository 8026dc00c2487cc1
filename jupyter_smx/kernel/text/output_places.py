"""Format the places of the model and the outputs of a job, one line each."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jupyter_smx.model.text import format_count, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.channel import Artifact

_ARCHIVES = {"model.tar.gz": "Model", "output.tar.gz": "Output data"}
_OUTPUTS = "outputs"
"""First part of the names of files that are not in an archive; the second one is the output."""


def output_places(job: Job) -> list[str]:
    """Return a line for each archive and for each folder of an output, as ``Model: /…/model.tar.gz (1.2 MiB)``.

    Files are listed by their folder: the user's destination, or the folder of the job's files.
    """
    lines, folders = [], dict[str, list["Artifact"]]()
    for artifact in job.artifacts:
        first, *rest = PurePosixPath(artifact.name).parts
        if artifact.name in _ARCHIVES:
            lines.append(f"{_ARCHIVES[artifact.name]}: {artifact.path} ({format_size(artifact.size)})")
        elif first == _OUTPUTS and len(rest) > 1:
            folders.setdefault(rest[0], []).append(artifact)
    return lines + [_folder_line(job, name, files) for name, files in folders.items()]


def _folder_line(job: Job, name: str, files: Sequence[Artifact]) -> str:
    title = "Model" if name == "model" and job.spec.kind == "train" else f"Output {name}"
    size = format_size(sum(file.size for file in files))
    return f"{title}: {_folder(job, name, files[0])} ({format_count(len(files), 'file')}, {size})"


def _folder(job: Job, name: str, file: Artifact) -> str:
    inside = file.name.removeprefix(f"{_OUTPUTS}/{name}/")
    if file.path.endswith(f"/{inside}"):
        return file.path.removesuffix(f"/{inside}")
    outputs = job.spec.fill_job_name(job.name).outputs
    return next((output.destination for output in outputs if output.name == name), "") or file.path

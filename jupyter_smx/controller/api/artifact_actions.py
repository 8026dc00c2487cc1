"""Answer requests for the files that the controller collected from a job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.controller.api.answer import Answer, file_answer
from jupyter_smx.model.errors import ResourceNotFoundError, suggest_names

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.controller.api.base import Actions, ApiHandler
    from jupyter_smx.controller.transfer.job_folder import JobFolder


def download_artifact(request: ApiHandler) -> Answer:
    """Stream a file of a job.

    :raises ResourceNotFoundError: the job has no such file.
    """
    ref, name = request.path_args
    job = request.facade.job(ref)
    folder = request.services.output_stager.folder(job.id)
    path = _artifact_path(folder, name)
    if path is None:
        raise ResourceNotFoundError(
            f"{job.name} has no artifact {name!r}.",
            field="artifact",
            value=name,
            cure=suggest_names(name, [artifact.name for artifact in job.artifacts]),
        )
    return file_answer(path)


def _artifact_path(folder: JobFolder, name: str) -> Path | None:
    path = folder.result if name == folder.result.name else folder.artifacts / name
    try:
        inside = os.path.realpath(path).startswith(os.path.realpath(folder.path) + os.sep)
        return path if inside and path.is_file() else None
    except (OSError, ValueError):
        return None  # a name that no file can have, or a folder that the controller may not read


ACTIONS: Actions = {
    "download_artifact": download_artifact,
}

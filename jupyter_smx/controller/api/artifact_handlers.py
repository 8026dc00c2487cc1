"""Files that a job brought home, over the API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.controller.api.base import ApiHandler
from jupyter_smx.model.errors import ResourceNotFoundError, suggest_names

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.controller.transfer.job_folder import JobFolder


class ArtifactHandler(ApiHandler):
    """A file that a job brought home."""

    async def get(self, ref: str, name: str) -> None:
        """Stream a file that a job brought home."""
        job = self.facade.job(ref)
        folder = self.services.output_stager.folder(job.id)
        path = _artifact_path(folder, name)
        if path is None:
            raise ResourceNotFoundError(
                f"{job.name} has no artefact {name!r}.",
                field="artifact",
                value=name,
                cure=suggest_names(name, [artifact.name for artifact in job.artifacts]),
            )
        await self.send_file(path)


def _artifact_path(folder: JobFolder, name: str) -> Path | None:
    path = folder.result if name == folder.result.name else folder.artifacts / name
    try:
        inside = os.path.realpath(path).startswith(os.path.realpath(folder.path) + os.sep)
        return path if inside and path.is_file() else None
    except (OSError, ValueError):
        return None  # a name that no file can have, or a folder that nobody may look into

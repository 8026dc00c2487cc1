"""Look for files and modules beside the notebook of a failed job, so that its record can name the cure."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.model.records.job import failing_host
from jupyter_smx.policy.hosts.cures import failure_cure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.records.job import HostEnd
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import JobSpec

_log = logging.getLogger(__name__)

TIMEOUT = 2.0
"""Seconds: a network disk that does not answer delays no end of a job for longer."""
_MAX_FOLDERS = 200
"""Folders beside the notebook that are searched for a module."""


class DiskFolder:
    """The folder of a notebook on this machine's disk. A name that no file can have, as one with a NUL, is absent."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists."""
        try:
            return (self._folder / path).exists()
        except (OSError, ValueError):
            return False

    def is_file(self, path: str) -> bool:
        """Return True if a file exists."""
        try:
            return (self._folder / path).is_file()
        except (OSError, ValueError):
            return False

    def has_module(self, folder: str, name: str) -> bool:
        """Return True if a folder has a module or package of Python."""
        try:
            found = self._folder / folder
            return (found / f"{name}.py").is_file() or any((found / name).glob("*.py"))
        except (OSError, ValueError):
            return False

    def folder_of_module(self, name: str) -> str:
        """Return the name of a folder beside the notebook with a module; "" if there is none."""
        try:
            names = sorted(path.name for path in islice(self._folder.iterdir(), _MAX_FOLDERS) if path.is_dir())
        except (OSError, ValueError):
            return ""
        return next((each for each in names if not each.startswith(".") and self.has_module(each, name)), "")


async def find_cure(
    spec: JobSpec, ends: Sequence[HostEnd], hosts: Iterable[Host] = (), image: Image | None = None
) -> str:
    """Return the cure for a failed job on ``hosts`` of an ``image``.

    It is "" where none is known or the disk does not answer in time.
    """
    end = failing_host(ends)
    if end is None:
        return ""
    folder = DiskFolder(spec.working_directory)
    host = next((each for each in hosts if each.name == end.host), None)
    try:
        return await asyncio.wait_for(asyncio.to_thread(failure_cure, spec, end, folder, host, image), TIMEOUT)
    except asyncio.TimeoutError:
        _log.warning("The folder %s did not answer within %.0f s.", spec.working_directory, TIMEOUT)
        return ""

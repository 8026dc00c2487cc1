"""Convert the paths of files in a job's record to the paths that the browser of this server uses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from jupyter_core.paths import is_hidden
from jupyter_server.services.contents.filemanager import FileContentsManager

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_server.services.contents.manager import ContentsManager

    from jupyter_smx.model.records.job import Job

MAX_PATHS = 2_000
"""Maximum number of paths of one job to look up: more rows are of no use, and each costs disk access."""


class FileLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a path exists, whether it is a folder, and its name in the file browser; None outside of that."""

    exists: bool
    is_folder: bool
    shown_as: str | None


class JobFileLocations(msgspec.Struct, frozen=True, kw_only=True):
    """The paths of a job's record, each with its place."""

    places: dict[str, FileLocation]


class ContentsRoot(msgspec.Struct, frozen=True, kw_only=True):
    """The folder that a Jupyter server shows, and whether it shows hidden files; "" where it shows no folder."""

    root: str
    hidden: bool = False

    @classmethod
    def from_manager(cls, contents: ContentsManager) -> ContentsRoot:
        """Read the root folder of a contents manager; one that serves no files of this machine has none."""
        if not isinstance(contents, FileContentsManager):
            return cls(root="")
        return cls(root=os.path.realpath(contents.root_dir), hidden=contents.allow_hidden)


def paths_of(job: Job) -> list[str]:
    """List the absolute paths of this machine that a job's record names, each once, ``MOST`` at most."""
    spec = job.spec.fill_job_name(job.name)
    named = [spec.notebook, spec.filename, spec.source_dir.folder if spec.source_dir else ""]
    named += [channel.source for channel in spec.channels]
    named += [output.destination for output in spec.outputs]
    named += [artifact.path for artifact in job.artifacts]
    return [path for path in dict.fromkeys(named) if Path(path).is_absolute()][:MAX_PATHS]


def locate_files(paths: Iterable[str], shown: ContentsRoot) -> JobFileLocations:
    """Look up each path on the disk; blocks."""
    return JobFileLocations(places={path: _locate_file(Path(path), shown) for path in paths})


def _locate_file(path: Path, shown: ContentsRoot) -> FileLocation:
    try:
        return FileLocation(exists=path.exists(), is_folder=path.is_dir(), shown_as=_browser_path(path, shown))
    except OSError:  # a parent folder that this user may not enter
        return FileLocation(exists=False, is_folder=False, shown_as=None)


def _browser_path(path: Path, shown: ContentsRoot) -> str | None:
    if not shown.root or not path.exists():
        return None
    # The folders around it may be links, and both names of a file are the same file.
    real = path.resolve() if path.name == ".." else path.parent.resolve() / path.name
    root = Path(shown.root)
    if real == root:
        return ""
    if root not in real.parents or (not shown.hidden and is_hidden(str(real), shown.root)):
        return None
    return real.relative_to(root).as_posix()

"""The folder of one job: its layout, and writes of files that appear complete."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_smx.agent.errors import is_temporary
from jupyter_smx.agent.system.files import host_layout, rmtree, walk
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ONLY_OWNER = 0o700


class StagingError(SmxError):
    """A file could not be put where it belongs."""

    code = "ClientError"
    status = 422


class JobFolder:
    """Paths under ``jobs/<job id>/``, each made when it is asked for: many are, in the few milliseconds of a job."""

    def __init__(self, jobs_folder: Path, job_id: str) -> None:
        self.path = jobs_folder / job_id

    @property
    def cell(self) -> Path:
        """The code as it ran."""
        return self.path / "cell.py"

    @property
    def provenance(self) -> Path:
        """File with the job's provenance."""
        return self.path / "provenance.json"

    @property
    def source_dir(self) -> Path:
        """The folder of code, packed."""
        return self.path / "source.tar.gz"

    @property
    def logs(self) -> Path:
        """The folder with the logs of its hosts."""
        return self.path / "logs"

    @property
    def artifacts(self) -> Path:
        """The folder with what it brought home."""
        return self.path / host_layout.ARTIFACTS

    @property
    def result(self) -> Path:
        """The variables that it sent back."""
        return self.path / host_layout.RESULT

    def make(self) -> None:
        """Make the folder, for this user only.

        :raises StagingError: the disk refuses.
        """
        with wrap_disk_errors(self.path):
            self.path.mkdir(mode=_ONLY_OWNER, parents=True, exist_ok=True)

    def log(self, host: str, attempt: int = 1) -> Path:
        """Return the file with the log of a host; attempts after the first have folders of their own."""
        return self.path / (f"logs/{host}.log" if attempt == 1 else f"logs/attempt-{attempt}/{host}.log")

    def metrics(self, attempt: int = 1) -> Path:
        """Return the file with the metrics and progress from the logs of an attempt."""
        return self.path / ("metrics.msgpack" if attempt == 1 else f"metrics-{attempt}.msgpack")

    def samples(self, host: str, attempt: int = 1) -> Path:
        """Return the file with the resource usage of a job on a host, as its agent wrote it."""
        return self.path / f"usage/attempt-{attempt}/{host}.samples"

    def delete(self) -> None:
        """Delete the folder with everything in it; idempotent.

        :raises StagingError: something in it cannot be deleted.
        """
        with wrap_disk_errors(self.path):
            try:
                rmtree.remove(os.fspath(self.path))
            except FileNotFoundError:
                return


@contextmanager
def wrap_disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk refuses inside the block into a sentence that names ``path``.

    :raises StagingError: a disk that is full, read-only or fails (``transient``), no permission, no such folder.
    """
    try:
        yield
    except OSError as error:
        raise StagingError(
            f"{path} cannot be written: {error.strerror or error}.",
            field="destination",
            value=path,
            cure="Free some space or choose another folder; copied files remain in the job's folder.",
            transient=is_temporary(error),
        ) from error


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; at the end it replaces ``path``, or nothing has changed.

    :raises StagingError: the disk refuses.
    """
    part = path.with_name(f".{path.name}.part")
    with wrap_disk_errors(path):
        if not path.parent.is_dir():  # it mostly is, and an exception would take longer
            walk.make_folders(os.fspath(path.parent))
        try:
            yield part
            os.replace(part, path)  # noqa: PTH105 - consistent with the rest of the package
        except BaseException:
            part.unlink(missing_ok=True)
            raise

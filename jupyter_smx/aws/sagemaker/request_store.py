"""Keep the request of each job in a file of its own, for the members that Describe gives back as they were sent.

A file has the name of its job's id, which is made of the name and of the call: attempts of one call write the same
file, and two calls never do. Files have mode 0600, since variables may have secrets, and are replaced by renaming.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.aws_endpoint.request_folder import inputs_folder
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

_ID_DIGITS = 32


class StoredRequest(Struct, frozen=True, kw_only=True):
    """The request of a job, and what later calls changed: tags by key, and the keep-alive of an update."""

    request: dict[str, Any] = {}
    """Members as they were sent; empty for a job that was not submitted here."""
    notes: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    keep_alive: int | None = None


def job_id(kind: str, name: str, call: str) -> str:
    """Return the id of the job of a request; ``call`` is equal in all attempts of one call."""
    return hashlib.sha256(f"{kind}:{name}:{call}".encode()).hexdigest()[:_ID_DIGITS]


class RequestStore:
    """The files of requests in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, job: str) -> bool:
        """Return True if something is kept of a job."""
        return self._path(job).exists()

    def read(self, job: str) -> StoredRequest:
        """Return what is kept of a job; an empty one for a job that was not submitted here."""
        try:
            return msgspec.json.decode(self._path(job).read_bytes(), type=StoredRequest)
        except (FileNotFoundError, msgspec.DecodeError):
            return StoredRequest()

    def write(self, job: str, stored: StoredRequest) -> None:
        """Replace what is kept of a job.

        :raises UnavailableError: the disk does not take it.
        """
        try:
            self._replace(job, stored)
        except OSError as error:
            raise UnavailableError(
                f"The request of the job cannot be kept: {error.strerror or error}.",
                field="data_dir",
                value=self._folder,
                rule="Descriptions of a job give back what was sent.",
                cure=f"Free some space on the disk of {self._folder}, and check that it is writable.",
            ) from error

    def _replace(self, job: str, stored: StoredRequest) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(job)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:  # noqa: PTH123
                file.write(msgspec.json.encode(stored))
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def set_tags(self, job: str, tags: dict[str, str]) -> None:
        """Replace the tags of a job."""
        self.write(job, replace(self.read(job), tags=tags))

    def set_keep_alive(self, job: str, seconds: int) -> None:
        """Keep the keep-alive that an update asked for."""
        self.write(job, replace(self.read(job), keep_alive=seconds))

    def delete(self, job: str) -> None:
        """Delete what is kept of a job, with the draft of a front that was killed; what cannot be deleted stays."""
        shutil.rmtree(self.inputs_folder(job), ignore_errors=True)
        for path in self._folder.glob(f"{job}.*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def inputs_folder(self, job: str) -> Path:
        """Return the folder for the objects of a job's manifests."""
        return inputs_folder(self._folder, job)

    def jobs_before(self, moment: float) -> set[str]:
        """Return the ids of jobs of which nothing was written since ``moment``, in seconds since the epoch."""
        written: dict[str, float] = {}
        for path in self._folder.glob("*"):
            job = path.name.partition(".")[0]
            with contextlib.suppress(FileNotFoundError):  # a draft that was just renamed
                written[job] = max(path.stat().st_mtime, written.get(job, 0.0))
        return {job for job, at in written.items() if at < moment}

    def _path(self, job: str) -> Path:
        return self._folder / f"{job}.json"

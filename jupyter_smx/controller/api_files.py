"""Bytes of a job over the API: logs from an offset on, and artefacts."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from jupyter_smx.controller.api_handler import Handler
from jupyter_smx.model.errors import ResourceNotFoundError, nearest
from jupyter_smx.model.status import is_final
from jupyter_smx.policy.hosts import named_hosts

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.controller.job_folder import JobFolder
    from jupyter_smx.model.job import Job

MAX_WAIT = 3_600.0
PIECE = 262_144
MAX_PIECE = 4 * 2**20


class Logs(Handler):
    """What a job printed."""

    async def get(self, ref: str) -> None:
        """Give bytes of a host's log from ``offset`` on, waiting (``wait`` seconds) when there are none yet.

        ``attempt`` is the newest unless another one is asked for; an earlier one is final.
        """
        job = self.desk.job(ref)
        host = self._host(job)
        offset = int(self.number("offset", 0, 2**62))
        limit = int(self.number("limit", PIECE, MAX_PIECE))
        until = time.monotonic() + self.number("wait", 0.0, MAX_WAIT)
        attempt = int(self.number("attempt", job.attempt, job.attempt)) or job.attempt
        path = self.around.staging.folder(job.id).log(host, attempt)
        while True:
            # The verdict is looked at before the file: what came with it is in the file by then.
            now = self.desk.job(job.id)
            final = is_final(now.state) or now.attempt > attempt
            data, total = _read(path, offset, limit)
            left = until - time.monotonic()
            if data or final or left <= 0:
                break
            # The bells are taken before anybody else can run, so that no ring is missed.
            with self.around.log_bells.listen(job.id) as more:
                news = {more, self.desk.next_change()}
                await self.patiently(asyncio.wait(news, timeout=left, return_when=asyncio.FIRST_COMPLETED))
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Smx-Offset", str(offset + len(data)))
        self.set_header("X-Smx-Total", str(total))
        self.set_header("X-Smx-Final", "1" if final and offset + len(data) >= total else "0")
        self.set_header("X-Smx-Host", host)
        self.set_header("X-Smx-Attempt", str(attempt))
        self.set_header("X-Smx-Attempts", str(now.attempt))
        self.finish(data)

    def _host(self, job: Job) -> str:
        return check_host(job, self.get_query_argument("host", "") or "algo-1")


class Artifacts(Handler):
    """A file that a job brought home."""

    async def get(self, ref: str, name: str) -> None:
        """Stream a file that a job brought home."""
        job = self.desk.job(ref)
        folder = self.around.staging.folder(job.id)
        path = _inside(folder, name)
        if path is None:
            raise ResourceNotFoundError(
                f"{job.name} has no artefact {name!r}.",
                field="artifact",
                value=name,
                cure=nearest(name, [artifact.name for artifact in job.artifacts]),
            )
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Length", str(path.stat().st_size))
        with path.open("rb", buffering=0) as file:
            while piece := await asyncio.to_thread(file.read, PIECE):
                self.write(piece)
                await self.flush()


def check_host(job: Job, host: str) -> str:
    """Give the name of a host back when the job has one of that name.

    :raises ResourceNotFoundError: it has none.
    """
    names = [each.name for each in named_hosts(job.spec.instance_groups)]
    if host not in names:
        raise ResourceNotFoundError(
            f"host: {job.name} has no host {host!r}.", field="host", value=host, cure=f"It has {', '.join(names)}."
        )
    return host


def _inside(folder: JobFolder, name: str) -> Path | None:
    path = folder.result if name == folder.result.name else folder.artifacts / name
    inside = os.path.realpath(path).startswith(os.path.realpath(folder.path) + os.sep)
    return path if inside and path.is_file() else None


def _read(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    try:
        with path.open("rb", buffering=0) as file:
            total = os.fstat(file.fileno()).st_size
            file.seek(offset)
            return file.read(limit), total
    except FileNotFoundError:
        return b"", 0

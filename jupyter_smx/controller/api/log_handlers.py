"""What jobs print, over the API: bytes from an offset on, the lines that have some words, and the whole as a stream."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from jupyter_smx.controller.api.base import PIECE, ApiHandler
from jupyter_smx.controller.telemetry import log_search
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.lifecycle.attempts import is_over

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.model.records.job import Job

MAX_WAIT = 3_600.0
MAX_PIECE = 4 * 2**20
MAX_OFFSET = 2.0**62
"""Larger than any file."""


class BaseLogHandler(ApiHandler):
    """What the routes of a log share: which one is meant."""

    def requested_log(self, job: Job) -> tuple[str, int, Path]:
        """Give host, attempt (the newest unless another one is asked for) and file.

        :raises ResourceNotFoundError: the job has no such host.
        """
        host = check_host(job, self.get_query_argument("host", "") or "algo-1")
        attempt = self.attempt(job)
        return host, attempt, self.services.output_stager.folder(job.id).log(host, attempt)


class LogsHandler(BaseLogHandler):
    """What a job printed."""

    async def get(self, ref: str) -> None:
        """Give bytes of a host's log from ``offset`` on, waiting (``wait`` seconds) when there are none yet.

        ``last`` asks for so many bytes of its end instead. ``attempt`` is the newest unless another one is asked for;
        an earlier one is final.
        """
        job = self.facade.job(ref)
        host, attempt, path = self.requested_log(job)
        offset, last = int(self.number("offset", 0, MAX_OFFSET)), int(self.number("last", 0, MAX_OFFSET))
        limit = int(self.number("limit", PIECE, MAX_PIECE))
        until = time.monotonic() + self.number("wait", 0.0, MAX_WAIT)
        while True:
            # The verdict is looked at before the file: what came with it is in the file by then.
            now = self.facade.job(job.id)
            final = is_over(now, attempt)
            data, begin, total = _read(path, offset, last, limit)
            left = until - time.monotonic()
            if data or final or left <= 0:
                break
            # The bells are taken before anybody else can run, so that no ring is missed.
            with self.services.log_signals.subscribe(job.id) as more:
                news = {more, self.facade.next_change()}
                await self.wait_while_connected(asyncio.wait(news, timeout=left, return_when=asyncio.FIRST_COMPLETED))
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Smx-Offset", str(begin + len(data)))
        self.set_header("X-Smx-Total", str(total))
        self.set_header("X-Smx-Final", "1" if final and begin + len(data) >= total else "0")
        self.set_header("X-Smx-Host", host)
        self.set_header("X-Smx-Hosts", ",".join(_hosts(job)))
        self.set_header("X-Smx-Attempt", str(attempt))
        self.set_header("X-Smx-Attempts", str(now.attempt))
        self.finish(data)


class LogSearchHandler(BaseLogHandler):
    """Where in a log some words are."""

    async def get(self, ref: str) -> None:
        """Give the bytes at which lines have the words ``text``, the last first, between ``after`` and ``before``.

        One answer looks through a part only: ``reached`` is the ``before`` of the next question, until it is ``after``.
        """
        *_, path = self.requested_log(self.facade.job(ref))
        words = log_search.compile_pattern(
            self.get_query_argument("text", "", strip=False), match_case=self._flag("case")
        )
        after = int(self.number("after", 0, MAX_OFFSET))
        before = int(self.number("before", 0, MAX_OFFSET)) if self.get_query_argument("before", "") else None
        found = await asyncio.to_thread(log_search.search, path, words, after, before)
        self.answer(dict(zip(("places", "reached", "total"), found, strict=True)))

    def _flag(self, name: str) -> bool:
        return bool(self.number(name, 0, 1))


class WholeLogHandler(BaseLogHandler):
    """A log as it is now, from its first byte to its last."""

    async def get(self, ref: str) -> None:
        """Stream a log; of one that still grows what was there at the beginning."""
        *_, path = self.requested_log(self.facade.job(ref))
        if path.is_file():
            await self.send_file(path)
        else:
            self.set_header("Content-Type", "application/octet-stream")
            self.set_header("Content-Length", "0")


def check_host(job: Job, host: str) -> str:
    """Give the name of a host back when the job has one of that name.

    :raises ResourceNotFoundError: it has none.
    """
    names = _hosts(job)
    if host not in names:
        raise ResourceNotFoundError(
            f"host: {job.name} has no host {host!r}.", field="host", value=host, cure=f"It has {', '.join(names)}."
        )
    return host


def _hosts(job: Job) -> list[str]:
    return [each.name for each in named_hosts(job.spec.instance_groups)]


def _read(path: Path, offset: int, last: int, limit: int) -> tuple[bytes, int, int]:
    """Give bytes, where they begin, and how long the file is."""
    try:
        with path.open("rb", buffering=0) as file:
            total = os.fstat(file.fileno()).st_size
            begin = max(0, total - last) if last else offset
            file.seek(begin)
            return file.read(limit), begin, total
    except FileNotFoundError:
        return b"", offset, 0

"""Answer requests for the output of jobs: bytes from an offset on, matching lines, or a stream."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.controller.api.answer import Answer, bytes_answer, file_answer, json_answer
from jupyter_smx.controller.telemetry import log_file, log_lines, log_search
from jupyter_smx.model import http_routes as routes
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.records.log_stream import run_begins
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.lifecycle.attempts import is_over

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_smx.controller.api.base import Actions, ApiHandler
    from jupyter_smx.model.records.job import Job


def _requested_log(request: ApiHandler, job: Job) -> tuple[str, int, Path]:
    """Return host, attempt (the newest by default) and file.

    :raises ResourceNotFoundError: the job has no such host.
    """
    host = check_host(job, request.query(routes.HOST) or "algo-1")
    attempt = request.attempt(job)
    return host, attempt, request.services.output_stager.folder(job.id).log(host, attempt)


async def read_log(request: ApiHandler) -> Answer:
    """Return bytes of a host's log from ``offset`` on, or wait for some if there are none.

    A gap in the log is skipped: the answer begins after it, or ends where it begins.
    """
    facade = request.facade
    job = facade.job(request.ref)
    host, attempt, path = _requested_log(request, job)
    until = time.monotonic() + request.query(routes.WAIT)
    while True:
        # Read the status before the file: output that came before it is then in the file.
        now = facade.job(job.id)
        final = is_over(now, attempt)
        piece = _read(request, path)
        left = until - time.monotonic()
        if piece.data or final or left <= 0:
            break
        # The signals are taken before any other task can run, so that no change is missed.
        with request.services.log_signals.subscribe(job.id) as more:
            news = {more, facade.next_change()}
            await request.wait_while_connected(asyncio.wait(news, timeout=left, return_when=asyncio.FIRST_COMPLETED))
    cursor = {
        "X-Smx-Offset": str(piece.end),
        "X-Smx-Total": str(piece.total),
        "X-Smx-Final": "1" if final and piece.end >= piece.total else "0",
        "X-Smx-Host": host,
        "X-Smx-Hosts": ",".join(_hosts(job)),
        "X-Smx-Attempt": str(attempt),
        "X-Smx-Attempts": str(now.attempt),
    }
    return bytes_answer(piece.data, cursor)


async def read_log_lines(request: ApiHandler) -> Answer:
    """Return whole lines of a host's log with their times."""
    job = request.facade.job(request.ref)
    _, attempt, path = _requested_log(request, job)
    began = run_begins(job).get(attempt) or job.created_at
    before, until = request.query(routes.BEFORE_BYTE), request.query(routes.UNTIL_MS)
    selected = log_lines.Selection(
        after=request.query(routes.AFTER_BYTE),
        before=None if before < 0 else before,
        since=request.query(routes.SINCE_MS),
        until=None if until < 0 else until,
        limit=request.query(routes.LIMIT_LINES),
        from_end=request.query(routes.FROM_END),
    )
    # The status is read before the file: output that came before it is then in the file.
    read = partial(log_lines.read_lines, run_begin=int(began * 1000), is_final=is_over(job, attempt))
    page = read(path, selected) if log_lines.is_short(path) else await asyncio.to_thread(read, path, selected)
    return json_answer(replace(page, attempt=attempt, attempts=job.attempt))


async def search_log(request: ApiHandler) -> Answer:
    """Return the offsets of lines that contain words, the last first, between ``after`` and ``before``.

    One answer covers a part only: ``reached`` is the ``before`` of the next request, until it is ``after``.
    """
    *_, path = _requested_log(request, request.facade.job(request.ref))
    words = log_search.compile_pattern(request.query(routes.TEXT), match_case=request.query(routes.MATCH_CASE))
    after, before = request.query(routes.AFTER_BYTE), request.query(routes.BEFORE_BYTE)
    found = await asyncio.to_thread(log_search.search, path, words, after, None if before < 0 else before)
    return json_answer(dict(zip(("places", "reached", "total"), found, strict=True)))


def download_log(request: ApiHandler) -> Answer:
    """Stream a log; of a growing one, its current content. Gaps are not sent."""
    *_, path = _requested_log(request, request.facade.job(request.ref))
    return file_answer(path, skips_gaps=True) if path.is_file() else bytes_answer(b"")


def check_host(job: Job, host: str) -> str:
    """Return the name of a host if the job has such a host.

    :raises ResourceNotFoundError: it has none.
    """
    names = _hosts(job)
    if host not in names:
        raise ResourceNotFoundError(
            f"host: {job.name} has no host {host!r}.",
            field="host",
            value=host,
            cure=f"Its hosts are {', '.join(names)}.",
        )
    return host


def _hosts(job: Job) -> list[str]:
    return [each.name for each in named_hosts(job.spec.instance_groups)]


def _read(request: ApiHandler, path: Path) -> log_file.LogPiece:
    """Read the bytes that a query selects."""
    limit, before = request.query(routes.LIMIT_BYTES), request.query(routes.END_BYTE)
    if last := request.query(routes.LAST):
        return log_file.read_last(path, last, limit)
    if before >= 0:
        return log_file.read_before(path, before, limit)
    return log_file.read_after(path, request.query(routes.OFFSET), limit)


ACTIONS: Actions = {
    "read_log": read_log,
    "read_log_lines": read_log_lines,
    "search_log": search_log,
    "download_log": download_log,
}

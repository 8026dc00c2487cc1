"""One thread for all jobs of a kernel: it waits for the controller's changes and tells the handles."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceNotFoundError, SmxError
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.array import JobArray
    from jupyter_smx.kernel.client import Client
    from jupyter_smx.kernel.handle import Job
    from jupyter_smx.model.job import Job as Record
    from jupyter_smx.model.job import JobSummary

_TURN = 20.0
"""Seconds that one request waits for a change."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds before it asks again when the controller does not answer; doubled each time."""

_SETTLE = 0.03
"""Seconds between a change and the look at its job: a warm start has five changes in a few milliseconds, and looking
at each would take the processor away from the job."""

_REDRAW = 2.0
"""Seconds between two cards that differ in the job's progress only: each one is written into the notebook."""

_BESIDE: dict[str, Any] = {
    "progress": None,
    "metrics": {},
    "expectation": None,
    "expected_start_at": None,
    "queue_position": None,
    "cost": None,
}
"""Fields of a summary that no record holds, with the same value for all."""

_log = logging.getLogger(__name__)


class Watcher:
    """Watches while a job of this kernel is open, and asks nothing otherwise; its thread never prints."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._open: dict[str, Job] = {}
        self._arrays: dict[str, JobArray] = {}
        self._news: dict[str, JobSummary] = {}
        self._drawn: dict[str, float] = {}
        self._work = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, job: Job) -> None:
        """Follow a job until its verdict; once is enough."""
        if is_final(job.known.state):
            return
        with self._lock:
            self._open.setdefault(job.id, job)
            self._begin()

    def _begin(self) -> None:
        self._work.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="smx-watcher", daemon=True)
            self._thread.start()

    def watch_array(self, array: JobArray) -> None:
        """Follow all tasks of an array until their verdicts."""
        with self._lock:
            self._arrays.setdefault(array.id, array)
            self._begin()

    def news(self, job_id: str) -> JobSummary | None:
        """Give what was last said of an open job beside its record: progress, expected end, place in the queue."""
        return self._news.get(job_id)

    def close(self) -> None:
        """End the thread; call it before the client is closed, which breaks off the request that the thread is in."""
        self._closed.set()
        self._work.set()

    def _run(self) -> None:
        since: int | None = None
        pause = _FIRST_PAUSE
        while self._work.wait() and not self._closed.is_set():
            try:
                since = self._turn(since)
                pause = _FIRST_PAUSE
            except SmxError:  # noqa: PERF203 - each turn is a request
                since = None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._client.leave()

    def _turn(self, since: int | None) -> int | None:
        """Wait for one batch of changes; None when it is not known any more what was missed."""
        if since is None:
            # The number is read first: what changes between it and the look at each job is seen twice, never missed.
            since = self._client.greet().seq
            for job in tuple(self._open.values()):
                self._look(job)
            for array in tuple(self._arrays.values()):
                self._tell_array(array, array.refresh)
        else:
            changes = self._client.changes(since, _TURN)
            # An answer may hold the first of many events only.
            newest = changes.events[-1].seq if changes.events else changes.seq
            since = None if changes.reset else newest
            if changes.events:
                self._closed.wait(_SETTLE)
            news = {event.job.id: event.job for event in changes.events if event.job}
            for array in tuple(self._arrays.values()):
                mine = [task for task in news.values() if task.array and task.array.id == array.id]
                self._tell_array(array, partial(array.hear, mine))
            for job in [self._open[job_id] for job_id in news if job_id in self._open]:
                old, self._news[job.id] = self._news.get(job.id), news[job.id]
                if old is not None and _same_step(old, news[job.id]):
                    self._glance(job)
                else:
                    self._look(job)
        with self._lock:
            if not (self._open or self._arrays) and not self._closed.is_set():
                self._work.clear()
                since = None
        return since

    def _look(self, job: Job) -> None:
        try:
            record = self._client.job(job.id)
        except ResourceNotFoundError:
            self._forget(job.id)  # somebody deleted it
            return
        if record == job.known:
            self._glance(job)
        else:
            self._tell(job, record)
        if is_final(record.state):
            self._forget(job.id)

    def _forget(self, job_id: str) -> None:
        with self._lock:
            self._open.pop(job_id, None)
            self._news.pop(job_id, None)
            self._drawn.pop(job_id, None)

    def _tell_array(self, array: JobArray, tell: Callable[[], object]) -> None:
        try:
            tell()
        except ResourceNotFoundError:
            self._arrays.pop(array.id, None)
        except SmxError:
            raise
        except Exception:  # noqa: BLE001 - border: as for a job
            _log.exception("A callback of %s failed", array.name)
        if array.ended():
            self._arrays.pop(array.id, None)

    def _glance(self, job: Job) -> None:
        """Let the card show how far the job is; its record is as it was."""
        now = time.monotonic()
        if now - self._drawn.get(job.id, 0.0) >= _REDRAW:
            self._drawn[job.id] = now
            self._tell(job, None)

    def _tell(self, job: Job, record: Record | None) -> None:
        try:
            if record is None:
                job.told()
            else:
                job.take(record)
        except Exception:  # noqa: BLE001 - border: callbacks are the user's code, and this thread serves other jobs too
            _log.exception("A callback of %s failed", job.name)


def _same_step(old: JobSummary, new: JobSummary) -> bool:
    """Say whether only what no record holds has changed."""
    return replace(old, **_BESIDE) == replace(new, **_BESIDE)

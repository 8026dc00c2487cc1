"""One thread for all jobs of a kernel: it waits for the controller's changes and tells the handles."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ResourceNotFoundError, SmxError
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from jupyter_smx.kernel.client import Client
    from jupyter_smx.kernel.handle import Job

_TURN = 20.0
"""Seconds that one request waits for a change."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds before it asks again when the controller does not answer; doubled each time."""

_SETTLE = 0.03
"""Seconds between a change and the look at its job: a warm start has five changes in a few milliseconds, and looking
at each would take the processor away from the job."""

_log = logging.getLogger(__name__)


class Watcher:
    """Watches while a job of this kernel is open, and asks nothing otherwise; its thread never prints."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._open: dict[str, Job] = {}
        self._queue: dict[str, int | None] = {}
        self._work = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, job: Job) -> None:
        """Follow a job until its verdict; once is enough."""
        if is_final(job.known.state):
            return
        with self._lock:
            self._open.setdefault(job.id, job)
            self._work.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="smx-watcher", daemon=True)
                self._thread.start()

    def queue_position(self, job_id: str) -> int | None:
        """Give the place of a waiting job in the queue as it was last said, from 1."""
        return self._queue.get(job_id)

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
        else:
            changes = self._client.changes(since, _TURN)
            # An answer may hold the first of many events only.
            newest = changes.events[-1].seq if changes.events else changes.seq
            since = None if changes.reset else newest
            if changes.events:
                self._closed.wait(_SETTLE)
            news = {event.job.id: event.job for event in changes.events if event.job}
            for job in [self._open[job_id] for job_id in news if job_id in self._open]:
                self._queue[job.id] = news[job.id].queue_position
                self._look(job)
        with self._lock:
            if not self._open and not self._closed.is_set():
                self._work.clear()
                since = None
        return since

    def _look(self, job: Job) -> None:
        try:
            record = self._client.job(job.id)
        except ResourceNotFoundError:
            self._open.pop(job.id, None)  # somebody deleted it
            return
        try:
            job.take(record)
        except Exception:  # noqa: BLE001 - border: callbacks are the user's code, and this thread serves other jobs too
            _log.exception("A callback of %s failed", job.name)
        if is_final(record.state):
            with self._lock:
                self._open.pop(job.id, None)
                self._queue.pop(job.id, None)

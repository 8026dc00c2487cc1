"""One thread for all jobs of a kernel: it waits for changes from the controller and updates the handles."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.handles.job import Job
    from jupyter_smx.kernel.handles.job_array import JobArray
    from jupyter_smx.model.records.job import Job as Record
    from jupyter_smx.model.records.job import JobSummary

_POLL_SECONDS = 20.0
"""Seconds that one request waits for a change."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds before it asks again when the controller does not answer; doubled each time."""

_SETTLE = 0.03
"""Seconds between a change and the look at its job: a warm start has five changes in a few milliseconds, and looking
at each would take the processor away from the job."""

_SINCE_SECONDS = 1.0
"""Seconds without an open job for which the number of the last change is kept. Asking for it again, and for the job,
takes two requests, which jobs one after another would pay each time."""

_REDRAW = 2.0
"""Seconds between two cards that differ in the job's progress only: each one is written into the notebook."""

_MAX_UNWATCHED = 256
"""Number of unwatched jobs whose latest change is kept: changes that arrive while a job is being submitted."""

_SUMMARY_ONLY_FIELDS: dict[str, Any] = {
    "progress": None,
    "metrics": {},
    "expectation": None,
    "expected_start_at": None,
    "queue_position": None,
    "cost": None,
    "usage": None,
}
"""Fields of a summary that no record has, all with the same value."""

_log = logging.getLogger(__name__)


class Watcher:
    """Polls while a job of this kernel is open, and sends no requests otherwise; its thread never prints.

    All handles of one job get its changes. State that is shared with the threads that begin to watch is used under
    the lock. No request is sent and no handle is notified while the lock is held.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._handles_by_job: dict[str, list[Job]] = {}
        self._arrays: dict[int, JobArray] = {}
        """By identity: all handles of one array get its changes."""
        self._summaries: dict[str, JobSummary] = {}
        self._draw_times: dict[str, float] = {}
        self._unwatched_summaries: dict[str, JobSummary] = {}
        """The latest changes of jobs that were not watched then."""
        self._work = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, job: Job) -> None:
        """Follow a job whose record is current until its outcome; one call is enough."""
        passed = self._add_handle(job)
        if passed is not None and passed.secondary_status != job.latest_record.state:
            # Changes between the answer that created the handle and this moment were missed, and will not come again.
            self._catch_up(partial(self._refresh, job.id))

    def refresh_and_watch(self, job: Job) -> None:
        """Follow a job whose record may be out of date until its outcome.

        :raises ResourceNotFoundError: it was deleted; no change of it will come.
        """
        self._add_handle(job)
        if not is_final(job.latest_record.state):
            self._catch_up(partial(self._refresh, job.id), UnavailableError)

    def watch_array(self, array: JobArray) -> None:
        """Follow all tasks of an array that is new until their verdicts."""
        with self._lock:
            self._arrays[id(array)] = array
            missed = any(task.array and task.array.id == array.id for task in self._unwatched_summaries.values())
            self._ensure_thread()
        if missed:
            self._catch_up(array.refresh)

    def refresh_and_watch_array(self, array: JobArray) -> None:
        """Follow all tasks of an array until their outcomes; changes may have been missed before.

        :raises ResourceNotFoundError: it was deleted.
        """
        with self._lock:
            self._arrays[id(array)] = array
            self._ensure_thread()
        self._catch_up(array.refresh, UnavailableError)
        array.notify_listeners()

    def latest_summary(self, job_id: str) -> JobSummary | None:
        """Return the latest summary of an open job, which also has progress, expected end and queue position."""
        with self._lock:
            return self._summaries.get(job_id)

    def close(self) -> None:
        """End the thread; call it before the client is closed, which breaks off the request that the thread is in."""
        self._closed.set()
        self._work.set()

    def _add_handle(self, job: Job) -> JobSummary | None:
        """Watch a job for a handle, and return its changes that came before."""
        if is_final(job.latest_record.state):
            return None
        with self._lock:
            handles = self._handles_by_job.setdefault(job.id, [])
            if not any(known is job for known in handles):
                handles.append(job)
            self._ensure_thread()
            return self._unwatched_summaries.pop(job.id, None)

    def _ensure_thread(self) -> None:
        self._work.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="smx-watcher", daemon=True)
            self._thread.start()

    @staticmethod
    def _catch_up(look: Callable[[], object], passed_over: type[SmxError] = SmxError) -> None:
        # If the controller is unreachable the thread notices that, too, and reads everything again afterwards.
        with suppress(passed_over):
            look()

    def _run(self) -> None:
        since: int | None = None
        pause = _FIRST_PAUSE
        while True:
            since = self._wait_for_work(since)
            if self._closed.is_set():
                break
            try:
                since = self._poll(since)
                pause = _FIRST_PAUSE
            except SmxError:
                since = None
                self._closed.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._client.close_thread_connections()

    def _wait_for_work(self, since: int | None) -> int | None:
        """Wait until a job is open; give the number of the last change, None after a pause without one."""
        if self._work.wait(_SINCE_SECONDS):
            return since
        with self._lock:
            self._unwatched_summaries.clear()
        self._work.wait()
        return None

    def _poll(self, since: int | None) -> int | None:
        """Wait for one batch of changes; None if it is unknown which changes were missed."""
        if since is None:
            # Read the number first: changes between it and the reading of each job are then seen twice, never missed.
            since = self._client.controller_info().seq
            with self._lock:
                jobs, arrays = list(self._handles_by_job), list(self._arrays.values())
            for job_id in jobs:
                self._refresh_if_exists(job_id)
            for array in arrays:
                self._notify_array(array, array.refresh)
        else:
            changes = self._client.changes(since, _POLL_SECONDS)
            # An answer may hold the first of many events only.
            newest = changes.events[-1].seq if changes.events else changes.seq
            since = None if changes.reset else newest
            if changes.events:
                self._closed.wait(_SETTLE)
            self._handle_changes({event.job.id: event.job for event in changes.events if event.job})
        with self._lock:
            if not (self._handles_by_job or self._arrays) and not self._closed.is_set():
                self._work.clear()
        return since

    def _handle_changes(self, news: dict[str, JobSummary]) -> None:
        with self._lock:
            arrays = list(self._arrays.values())
            known = {job_id: self._summaries.get(job_id) for job_id in news if job_id in self._handles_by_job}
            self._summaries.update((job_id, news[job_id]) for job_id in known)
            self._unwatched_summaries.update(
                (job_id, summary) for job_id, summary in news.items() if job_id not in known
            )
            for job_id in list(self._unwatched_summaries)[:-_MAX_UNWATCHED]:
                del self._unwatched_summaries[job_id]
        for array in arrays:
            mine = [task for task in news.values() if task.array and task.array.id == array.id]
            self._notify_array(array, partial(array.update_tasks, mine))
        for job_id, old in known.items():
            if old is not None and _is_same_record(old, news[job_id]):
                self._redraw(job_id, self._handles(job_id))
            else:
                self._refresh_if_exists(job_id)

    def _handles(self, job_id: str) -> list[Job]:
        with self._lock:
            return list(self._handles_by_job.get(job_id, ()))

    def _refresh_if_exists(self, job_id: str) -> None:
        with suppress(ResourceNotFoundError):
            self._refresh(job_id)

    def _refresh(self, job_id: str) -> None:
        if self._close_if_final(job_id):
            return  # the thread that waited for it has its record
        try:
            record = self._client.job(job_id)
        except ResourceNotFoundError:
            self._close(job_id)  # it was deleted
            self._discard_summary(job_id)
            raise
        over = is_final(record.state)
        # A handle that is added after this opens it again and asks by itself.
        handles = self._close(job_id) if over else self._handles(job_id)
        if all(job.latest_record == record for job in handles):
            self._redraw(job_id, handles)
        else:
            for job in handles:
                self._notify(job, record)
        if over:
            self._discard_summary(job_id)

    def _close_if_final(self, job_id: str) -> bool:
        """Stop watching a job after its final status; return True if so. A later handle starts to watch it again."""
        with self._lock:
            known = all(is_final(job.latest_record.state) for job in self._handles_by_job.get(job_id, ()))
            if known:
                for held in (self._handles_by_job, self._summaries, self._draw_times):
                    held.pop(job_id, None)
            return known

    def _close(self, job_id: str) -> list[Job]:
        with self._lock:
            return self._handles_by_job.pop(job_id, [])

    def _discard_summary(self, job_id: str) -> None:
        with self._lock:
            for held in (self._summaries, self._draw_times):
                held.pop(job_id, None)

    def _notify_array(self, array: JobArray, tell: Callable[[], object]) -> None:
        gone = False
        try:
            tell()
        except ResourceNotFoundError:
            gone = True
        except SmxError:
            raise
        except Exception:  # noqa: BLE001 - border: an error of drawing must not end this thread for others
            _log.exception("A callback of %s failed", array.name)
        if gone or array.ended():
            with self._lock:
                self._arrays.pop(id(array), None)

    def _redraw(self, job_id: str, handles: list[Job]) -> None:
        """Redraw the card of a job for its progress; its record has not changed."""
        now = time.monotonic()
        with self._lock:
            due = now - self._draw_times.get(job_id, 0.0) >= _REDRAW
            if due:
                self._draw_times[job_id] = now
        for job in handles if due else ():
            self._notify(job, None)

    def _notify(self, job: Job, record: Record | None) -> None:
        if record is None:
            job.notify_listeners()
        else:
            job.update(record)


def _is_same_record(old: JobSummary, new: JobSummary) -> bool:
    """Return True if only values that no record has have changed."""
    return replace(old, **_SUMMARY_ONLY_FIELDS) == replace(new, **_SUMMARY_ONLY_FIELDS)

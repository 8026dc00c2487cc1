"""Decide over time which messages are due while no page is open; sending is the caller's task.

An open page, visible or hidden, reads the changes within moments of a hint on the event bus. A change that no page has
requested since was not shown: the tab is closed, frozen, or on a laptop that sleeps with its connection open. So this
module looks at requests, and does not count connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import FINAL_STATUSES, Status
from jupyter_smx.model.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.event import Event, PoolSummary
    from jupyter_smx.model.records.job import JobSummary

GRACE = 45.0
"""Seconds in which a page may request an end; a page that lost its connection restores it in half a minute."""

POOL_GRACE = 15.0
"""Seconds in which a page answers the roll call about a pool that is about to end."""

MAX_PAUSE = 900.0
"""Maximum seconds between two messages, if one follows the other and no page is opened."""

POOL_WARNING = 120.0
"""Seconds before a pool's end at which it is worth a message."""

MIN_POOL_LIFETIME = 180.0
"""Minimum planned seconds of a pool's life for a message about its end."""


class Message(Struct, frozen=True):
    """One message about everything that was pending."""

    title: str
    lines: tuple[str, ...]


class _Item(Struct, frozen=True):
    line: str
    word: str
    due_at: float


class PendingMessages:
    """Ends of jobs and of pools that no page has read of; times are seconds since the epoch."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._waiting: dict[str, _Item] = {}
        self._pools: dict[str, PoolSummary] = {}
        self._notified: dict[str, float] = {}
        """Noted items, and until when each could come once more."""
        self._pause = GRACE
        self._not_before = 0.0

    def replace_all(self, jobs: Iterable[JobSummary], pools: Iterable[PoolSummary]) -> frozenset[str]:
        """Take a listing as the whole truth; give the ids of the jobs that ended meanwhile."""
        before, self._open = self._open, {job.id for job in jobs if job.status not in FINAL_STATUSES}
        self._pools = {pool.id: pool for pool in pools}
        return frozenset(before - self._open)

    def apply_changes(self, events: Iterable[Event], now: float) -> None:
        """Take changes, oldest first."""
        for event in events:
            if event.pool is not None:
                self._apply_pool(event.pool)
            if event.job is None:
                continue
            if event.job.status not in FINAL_STATUSES:
                self._open.add(event.job.id)
            elif event.job.id in self._open or event.job.created_at >= now - GRACE:
                # A short job may be over at its first event; a job that ended long ago may change once more.
                self.add_job_end(event.job, now)

    def _apply_pool(self, pool: PoolSummary) -> None:
        if pool.state == ClusterState.TERMINATED:
            self._pools.pop(pool.id, None)
        else:
            self._pools[pool.id] = pool

    def add_job_end(self, job: JobSummary, now: float) -> None:
        """Note the end of a job, once."""
        self._open.discard(job.id)
        if job.id not in self._notified:
            # Afterwards it is noted only if it is open, which it never is again.
            self._notified[job.id] = job.created_at + GRACE
            self._waiting[job.id] = _Item(line=_format_job_end(job), word=job.status.value.lower(), due_at=now + GRACE)

    def mark_read(self) -> None:
        """Note that a page reads what there is: nothing waits any more."""
        self._waiting.clear()
        self._pause, self._not_before = GRACE, 0.0

    def add_ending_pools(self, now: float) -> bool:
        """Note the pools that end within two minutes; return True if there is a new one, so that pages are called."""
        found = [
            pool for pool in self._pools.values() if _is_ending(pool, now) and _deadline(pool) not in self._notified
        ]
        for pool in found:
            self._notified[_deadline(pool)] = pool.expires_at or now
            self._waiting[pool.id] = _Item(line=_format_pool_end(pool, now), word="", due_at=now + POOL_GRACE)
        return bool(found)

    def take_due(self, now: float) -> Message | None:
        """Take out everything that waits, as soon as some of it waited long enough and the last message is old."""
        self._notified = {what: until for what, until in self._notified.items() if until >= now}
        if now < self._not_before or not any(item.due_at <= now for item in self._waiting.values()):
            return None
        items = list(self._waiting.values())
        self._waiting.clear()
        self._not_before = now + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)
        return Message(title=_title([item.word for item in items if item.word]), lines=tuple(one.line for one in items))


def _is_ending(pool: PoolSummary, now: float) -> bool:
    if pool.state != "Available" or pool.expires_at is None:
        return False
    since = pool.created_at if pool.idle_since is None else pool.idle_since
    return pool.expires_at - POOL_WARNING <= now < pool.expires_at and pool.expires_at - since >= MIN_POOL_LIFETIME


def _deadline(pool: PoolSummary) -> str:
    return f"{pool.id}@{pool.expires_at:.0f}"


def _title(words: list[str]) -> str:
    if not words:
        return "A warm pool is about to end"
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return f"{format_count(len(words), 'job')} ended: {counts}"


def _format_job_end(job: JobSummary) -> str:
    """Format how a job ended: its name, its time, the type and the line of a failure, never a message or a value."""
    took = format_duration(round(max(1.0, (job.ended_at or job.created_at) - job.created_at)))
    if job.status is Status.FAILED:
        line = "" if job.failure_line is None else f", line {job.failure_line}"
        why = f": {job.failure_type}{line}" if job.failure_type else ""
        return f"{job.name} failed after {took}{why}"
    return f"{job.name} {'completed' if job.status is Status.COMPLETED else 'was stopped'} after {took}"


def _format_pool_end(pool: PoolSummary, now: float) -> str:
    left = format_duration(max(1, round((pool.expires_at or now) - now)))
    jobs = f"{format_count(pool.jobs_served, 'job')}"
    hourly = pool.price_per_hour
    price = "" if hourly is None else f" An hour more costs ${hourly:.2f}."
    cure = f"Keep it with: jupyter smx extend {pool.name} 15m"
    return f"The pool {pool.instances} ends in {left}; {jobs} ran on it.{price} {cure}"

"""Report once, before a cell runs, that a kept pool of this kernel ended before its keep-alive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.handles.job import Job
from jupyter_smx.kernel.text.tables import single_line
from jupyter_smx.model.errors import ResourceNotFoundError, SmxError
from jupyter_smx.model.records.cluster import WarmPoolStatus
from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.handles.job_array import JobArray
    from jupyter_smx.model.records.job import Job as Record

EXPECTED_ENDS = frozenset(
    (
        "The keep-alive expired.",
        "Its hosts' time was over before the controller came back.",
        "Every task of its array has started.",
    )
)
"""Reasons of the controller for an end that the user of the pool expects."""
_PAUSE = 30.0
"""Seconds without a request after one without an answer, so that not every cell waits for it."""
_INTERVAL = 10.0
"""Minimum seconds between two checks: each takes a millisecond or two, for which successive cells should not wait."""
_LONGEST_LOOK = 0.3
"""Maximum seconds of one check; the next one continues."""
_LONGEST_REASON = 240


class KeptPool(Struct, frozen=True):
    """A pool that this kernel keeps: the job that left it, by name, and the last job that is known on it, by ID."""

    owner: str
    last_job: str


class PoolUse(Struct, frozen=True):
    """Pool of a job at its end, and whether it was kept then."""

    ended_at: float
    pool: str
    job: str
    name: str
    is_kept: bool


class PoolNotices:
    """The kept pools of one kernel. Call it in the main thread; it sends few requests, and none within ``_INTERVAL``.

    ``connect`` returns a client that starts no controller. ``released`` has the pools that this kernel released.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        released: Container[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._released = released
        self._clock = clock
        self._running: list[Job | JobArray] = []
        self._kept: dict[str, KeptPool] = {}
        self._next_look = 0.0

    def follow(self, handle: Job | JobArray) -> None:
        """Report later on the pool of a job or an array that was submitted now."""
        self._running.append(handle)

    def sentences(self) -> list[str]:
        """Return a sentence for each kept pool that has ended since the last call; none if no controller answers."""
        self._collect()
        if not self._kept or self._clock() < self._next_look:
            return []
        self._next_look = self._clock() + _INTERVAL
        found: list[str] = []
        client, end = self._connect(), self._clock() + _LONGEST_LOOK
        try:
            for pool, kept in tuple(self._kept.items()):
                if self._clock() < end:
                    found += self._look(client, pool, kept, end)
        except SmxError:
            self._next_look = self._clock() + _PAUSE
        finally:
            client.close()
        return found

    def _collect(self) -> None:
        """Read from the handles, without a request, which pools were kept or ended with jobs of this kernel."""
        running, self._running = self._running, []
        uses: list[PoolUse] = []
        for handle in running:
            if _is_over(handle):
                uses += _uses(handle)
            else:
                self._running.append(handle)
        for use in sorted(uses, key=lambda one: one.ended_at):
            self._kept.pop(use.pool, None)
            if use.is_kept:
                self._kept[use.pool] = KeptPool(use.name, use.job)

    def _look(self, client: Client, pool: str, kept: KeptPool, end: float) -> list[str]:
        try:
            last = self._last_job(client, kept.last_job, end)
        except ResourceNotFoundError:
            del self._kept[pool]  # its record was deleted, so the reason is unknown
            return []
        running = {handle.id for handle in self._running}
        if last.id in running or (last.spec.array is not None and last.spec.array.id in running):
            return []  # a job of this kernel, whose handle reports its end
        if not _has_ended(last):
            self._kept[pool] = KeptPool(kept.owner, last.id)
            return []
        del self._kept[pool]
        sentence = "" if pool in self._released else end_sentence(kept, last)
        return [sentence] if sentence else []

    def _last_job(self, client: Client, ref: str, end: float) -> Record:
        """Follow a pool from a job to the job that took it over, and on to the last one, until the time is over.

        :raises SmxError: a record was deleted, or there is no answer.
        """
        record = client.job(ref)
        while record.warm_pool is not None and record.warm_pool.reused_by_job and self._clock() < end:
            record = client.job(record.warm_pool.reused_by_job)
        return record


def end_sentence(kept: KeptPool, last: Record) -> str:
    """Return a line about the end of a pool and why; "" if its user expects that. ``last`` is the last job on it."""
    reason = last.warm_pool.reason if last.warm_pool else ""
    if reason in EXPECTED_ENDS:
        return ""
    used = "" if last.name == kept.owner else f", after {last.name} used it"
    why = single_line(reason)[:_LONGEST_REASON] or "The controller has no reason on record."
    return f"The warm pool of {kept.owner} ended before its keep-alive{used}: {why} A job that needs it starts cold."


def _is_over(handle: Job | JobArray) -> bool:
    return is_final(handle.latest_record.state) if isinstance(handle, Job) else handle.ended()


def _uses(handle: Job | JobArray) -> Iterator[PoolUse]:
    if isinstance(handle, Job):
        record = handle.latest_record
        status = record.warm_pool.status.value if record.warm_pool else ""
        ends = [(record.ended_at, record.cluster, record.id, record.name, status)]
    else:
        ends = [(task.ended_at, task.pool, task.id, task.name, task.warm_pool_status) for task in handle.tasks]
    for ended_at, pool, job, name, status in ends:
        if pool:
            yield PoolUse(ended_at or 0.0, pool, job, name, status == WarmPoolStatus.AVAILABLE.value)


def _has_ended(last: Record) -> bool:
    return last.warm_pool is not None and last.warm_pool.status is WarmPoolStatus.TERMINATED

"""Follows the progress, the metrics and the expected end of all live jobs, beside the loop and never in its way.

Logs are read in one thread, a piece at a time. It rests three times as long as it computes, so that a flood of log
costs a quarter of one CPU at most; what it cannot keep up with it reads in samples.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.telemetry.log_metrics import Gauge, Told
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.results.progress import Outlook
from jupyter_smx.policy.accounting.usage import together
from jupyter_smx.policy.lifecycle.retries import is_over
from jupyter_smx.policy.scheduling import capacity, eta

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import Expectation, JobMetrics, Progress
    from jupyter_smx.model.results.usage import Usage
    from jupyter_smx.policy.scheduling.eta import Run

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

GATHER = 0.1
"""Seconds between a piece of log and the look at it: what comes in small pieces is read in larger ones."""
REST = 3.0
"""Seconds of rest for each second of reading."""
LONGEST_REST = 1.0
"""Seconds; on a busy machine reading takes long without computing much."""
TELL_EVERY = 1.0
"""Seconds between two events about the progress of one job."""
EVENTS_PER_SECOND = 50
"""For all jobs together; with more that run each one is told of more rarely."""
VISIBLE = 2.0
"""Percents of a core or a GPU by which what a job uses must change for an event."""
LINE = 20
"""Jobs of a line whose beginning is reckoned out; further back it would be a guess."""
VERDICT_WAITS = 2.0
"""Seconds for which a verdict waits for the last metrics."""


class Meter:
    """One gauge for each job whose log grows; what it tells is in ``books.outlooks`` and in events.

    ``is_bounded`` says of an engine that its jobs share this machine, so that the end of one is the beginning of
    another. ``fenced`` is called when another controller owns the records.
    """

    def __init__(
        self, jobs_folder: Path, books: Books, is_bounded: Callable[[str], bool], fenced: Callable[[], None]
    ) -> None:
        self._jobs_folder = jobs_folder
        self._books = books
        self._is_bounded = is_bounded
        self._fenced = fenced
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="progress")
        self._gauges: dict[str, Gauge] = {}
        self._grown: dict[str, None] = {}
        self._reading: asyncio.Task[None] | None = None
        self._past: dict[str, list[Run]] = {}
        self._used: dict[str, dict[str, Usage]] = {}
        self._starts: dict[str, float] = {}
        self._untold: dict[str, None] = {}
        self._told_at: dict[str, float] = {}
        self._telling: asyncio.TimerHandle | None = None

    def grew(self, job_id: str) -> None:
        """Learn that there is more log of a job."""
        if job_id in self._books.jobs:
            self._grown[job_id] = None
            if self._reading is None or self._reading.done():
                self._reading = asyncio.get_running_loop().create_task(self._read(), name="progress")

    def sampled(self, job_id: str, host: str, figures: Usage) -> None:
        """Learn what a job uses of one of its hosts now."""
        job = self._books.jobs.get(job_id)
        if job is not None:
            used = self._used.setdefault(job_id, {})
            used[host] = figures
            outlook, now = self._outlook(job), together(used.values())
            if _used_otherwise(outlook.usage, now):
                self._change(job, replace(outlook, usage=now))

    def tick(self) -> None:
        """Look at the expected ends of running jobs and at the heads of the lines; call it about once a second."""
        running = [job for job in self._books.jobs.values() if job.cluster]
        lines = [self._books.line.waiting(engine)[:LINE] for engine in self._bounded_engines()]
        # An array may have ten thousand tasks that wait: only those are looked at of which something can be said.
        looked_at = {job.id: job for job in (*running, *(job for line in lines for job in line))}
        for job in looked_at.values():
            if job.id not in self._past:
                self._past[job.id] = self._books.store.runs(eta.code_of(job.spec), eta.place_of(job.spec))
                if "first_line" in job.timings:
                    self.grew(job.id)  # it ran before this controller began
        # A job that was shorter than a second is in some of them only.
        for job_id in (self._past.keys() | self._used.keys() | self._told_at.keys()) - self._books.jobs.keys():
            self._forget(job_id)
        self._starts = self._expected_starts(running, lines)
        for job_id in looked_at.keys() | self._books.outlooks.keys():
            if job_id in self._books.jobs:
                self._look_ahead(self._books.jobs[job_id])

    async def finish(self, job: Job) -> Told:
        """Read the rest of a job's logs; a verdict waits for it a moment and no longer."""
        gauge = self._gauge(job)
        if gauge.is_silent():
            self._let_go(job.id)
            return Told()
        try:
            return await asyncio.wait_for(self._in_thread(gauge.finish), VERDICT_WAITS)
        except asyncio.TimeoutError:
            _log.warning("The last metrics of %s are not read yet; its verdict does not wait for them.", job.name)
        except Exception:  # noqa: BLE001 - border: a log may say anything, and no verdict may hang on what reads it
            _log.exception("The metrics of %s cannot be read", job.name)
        finally:
            self._let_go(job.id)
        outlook = self._outlook(job)
        return Told(progress=outlook.progress, latest=outlook.metrics, pace=outlook.pace)

    def _let_go(self, job_id: str) -> None:
        self._gauges.pop(job_id, None)
        self._grown.pop(job_id, None)

    async def metrics(self, job: Job, attempt: int, since: float) -> JobMetrics:
        """Give the points of a run of a job after a moment; the run may be over since long."""
        over = is_over(job, attempt)
        gauge = self._gauges.get(job.id)
        if gauge is None or gauge.attempt != attempt:
            gauge = self._new_gauge(replace(job, attempt=attempt))
            if over:
                await self._in_thread(gauge.finish_late)  # what was not saved before the controller ended
        found = await self._in_thread(partial(gauge.record, since))
        return replace(found, attempts=job.attempt, is_final=over)

    async def close(self) -> None:
        """Save what is known and let the thread go; a new controller reads on."""
        if self._telling is not None:
            self._telling.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        for gauge in self._gauges.values():
            await self._in_thread(gauge.save)
        self._thread.shutdown(wait=False)

    async def _read(self) -> None:
        await asyncio.sleep(GATHER)
        while self._grown:
            # In turns, so that one job's flood leaves the others theirs.
            job_id = next(iter(self._grown))
            del self._grown[job_id]
            job = self._books.jobs.get(job_id)
            if job is None:
                continue
            begun = time.monotonic()
            gauge = self._gauge(job)
            try:
                told = await self._in_thread(gauge.turn)
            except Exception:  # noqa: BLE001 - border: a log may say anything, and the other jobs' logs are read on
                _log.exception("The log of %s cannot be read for metrics", job.name)
                continue
            if told.more:
                self._grown.setdefault(job_id, None)
            if self._gauges.get(job_id) is gauge:
                self._heard(job, told)
            await asyncio.sleep(min(LONGEST_REST, REST * (time.monotonic() - begun)))

    def _gauge(self, job: Job) -> Gauge:
        found = self._gauges.get(job.id)
        if found is None or found.attempt != job.attempt:
            found = self._gauges[job.id] = self._new_gauge(job)
        return found

    def _new_gauge(self, job: Job) -> Gauge:
        return Gauge(JobFolder(self._jobs_folder, job.id), job, self._books.clock)

    def _in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _heard(self, job: Job, told: Told) -> None:
        self._change(job, replace(self._outlook(job), progress=told.progress, metrics=told.latest, pace=told.pace))
        self._look_ahead(job)

    def _look_ahead(self, job: Job) -> None:
        outlook = self._outlook(job)
        if outlook.progress is not None and "first_line" not in job.timings:
            outlook = Outlook()  # that was the attempt before
        expectation = self._expectation(job, outlook.progress)
        if _differ(outlook.expectation, expectation):
            outlook = replace(outlook, expectation=expectation)
        start_at = self._starts.get(job.id)
        if (start_at is None) is not (outlook.start_at is None) or _apart(start_at, outlook.start_at) > TELL_EVERY:
            outlook = replace(outlook, start_at=start_at)
        self._change(job, outlook)

    def _expectation(self, job: Job, progress: Progress | None) -> Expectation | None:
        return eta.expect(job, progress, self._past.get(job.id, ()), self._books.clock())

    def _bounded_engines(self) -> list[str]:
        return [engine for engine in self._books.line.engines() if self._is_bounded(engine)]

    def _expected_starts(self, running: list[Job], lines: list[list[Job]]) -> dict[str, float]:
        """Say when the first jobs of each line begin, when those before them end as expected."""
        found: dict[str, float] = {}
        if not any(lines):
            return found
        held = [self._claim(job, self._left(job)) for job in running if self._is_bounded(job.spec.engine)]
        now, limits = self._books.clock(), self._books.limits
        for line in lines:
            waits = eta.starts(held, [self._claim(job, self._run_time(job)) for job in line], limits)
            found |= {job.id: now + wait for job, wait in zip(line, waits, strict=True) if wait is not None}
        return found

    def _claim(self, job: Job, seconds: float | None) -> eta.Claim:
        return eta.Claim(share=capacity.demand(job.spec.instance_groups, self._books.limits), seconds=seconds)

    def _run_time(self, job: Job) -> float | None:
        waiting = replace(job, created_at=self._books.clock(), spec=replace(job.spec, submitted_at=0.0))
        expected = self._expectation(waiting, None)
        return None if expected is None else expected.seconds

    def _left(self, job: Job) -> float | None:
        expected = self._expectation(job, self._outlook(job).progress)
        passed = max(0.0, self._books.clock() - (job.spec.submitted_at or job.created_at))
        return None if expected is None else max(0.0, expected.seconds - passed)

    def _outlook(self, job: Job) -> Outlook:
        return self._books.outlooks.get(job.id) or Outlook()

    def _change(self, job: Job, outlook: Outlook) -> None:
        if outlook == self._outlook(job) or job.id not in self._books.jobs:
            return
        self._books.outlooks[job.id] = outlook
        self._untold[job.id] = None
        self._tell_later()

    def _tell_later(self) -> None:
        if self._telling is None and self._untold:
            due = min(self._told_at.get(job_id, 0.0) for job_id in self._untold) + self._pace()
            pause = max(GATHER, due - self._books.steady())
            self._telling = asyncio.get_running_loop().call_later(pause, self._tell)

    def _pace(self) -> float:
        return max(TELL_EVERY, len(self._books.outlooks) / EVENTS_PER_SECOND)

    def _tell(self) -> None:
        self._telling = None
        now = self._books.steady()
        due = [job_id for job_id in self._untold if self._told_at.get(job_id, 0.0) + self._pace() <= now + GATHER]
        for job_id in due:
            del self._untold[job_id]
            self._told_at[job_id] = now
        jobs = [self._books.jobs[job_id] for job_id in due if job_id in self._books.jobs]
        try:
            if jobs:
                self._books.tell(jobs)
        except FencedError:
            self._fenced()
            return
        except SmxError as error:
            _log.warning("Progress could not be told: %s", error)
        self._tell_later()

    def _forget(self, job_id: str) -> None:
        for known in (self._past, self._used, self._told_at, self._untold, self._gauges, self._grown):
            known.pop(job_id, None)


def _used_otherwise(old: Usage | None, new: Usage | None) -> bool:
    """Say whether a bar would look another way: not for every percent and every page."""
    if old is None or new is None:
        return old is not new
    pairs = (
        (old.cpu_percent, new.cpu_percent, VISIBLE),
        (old.gpu_percent, new.gpu_percent, VISIBLE),
        (old.memory_bytes, new.memory_bytes, 0.02 * (old.memory_bytes or 0)),
        (old.gpu_memory_bytes, new.gpu_memory_bytes, 0.02 * (old.gpu_memory_bytes or 0)),
    )
    return any((one is None) is not (other is None) or _apart(one, other) > least for one, other, least in pairs)


def _apart(one: float | None, other: float | None) -> float:
    return abs((one or 0.0) - (other or 0.0))


def _differ(old: Expectation | None, new: Expectation | None) -> bool:
    """Say whether a person would read another number: not for every tenth of a second of a bar's own estimate."""
    if old is None or new is None:
        return old is not new
    return old.basis != new.basis or abs(old.seconds - new.seconds) > max(0.5, 0.02 * old.seconds)

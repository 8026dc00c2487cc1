"""Track progress, metrics and expected end of all live jobs, without blocking the controller's loop.

Logs are read in one thread, a piece at a time. It rests three times as long as it computes, so that a flood of log
costs a quarter of one CPU at most; if it cannot keep up, it reads samples.
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
from jupyter_smx.controller.telemetry.log_metrics import LogMetrics, LogMetricsReader
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.results.progress import JobTelemetry
from jupyter_smx.policy.accounting.usage import sum_usage
from jupyter_smx.policy.lifecycle.attempts import is_over
from jupyter_smx.policy.scheduling import capacity, eta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.cluster import QueueStatus
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import Expectation, JobMetrics, Progress
    from jupyter_smx.model.results.usage import Usage
    from jupyter_smx.policy.scheduling.eta import CompletedRun

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

GATHER = 0.1
"""Seconds to wait before a new piece of log is read: small pieces are then read as larger ones."""
PAUSE_FACTOR = 3.0
"""Seconds of rest for each second of reading."""
MAX_PAUSE = 1.0
"""Seconds; on a busy machine reading takes long without computing much."""
EVENT_INTERVAL = 1.0
"""Seconds between two events about the progress of one job."""
EVENTS_PER_SECOND = 50
"""Events for all jobs together; with more running jobs, each one gets fewer."""
VISIBLE_CHANGE = 2.0
"""Percents of a core or a GPU by which what a job uses must change for an event."""
MAX_FORECAST_JOBS = 20
"""Jobs of a line whose beginning is reckoned out; further back it would be a guess."""
FINAL_METRICS_TIMEOUT = 2.0
"""Seconds for which a verdict waits for the last metrics."""


class ProgressTracker:
    """One ``LogMetricsReader`` for each job whose log grows; results are in ``LiveState.outlooks`` and in events.

    ``is_bounded`` returns True if an engine's jobs share this machine, so that the end of one is the beginning of
    another. ``slots_of`` returns the number of hosts that an engine can have, None without a limit. ``on_fenced``
    is called when another controller owns the records.
    """

    def __init__(
        self,
        jobs_folder: Path,
        live_state: LiveState,
        is_bounded: Callable[[str], bool],
        on_fenced: Callable[[], None],
        slots_of: Callable[[str], int | None] = lambda _engine: None,
    ) -> None:
        self._jobs_folder = jobs_folder
        self._live_state = live_state
        self._is_bounded = is_bounded
        self._slots_of = slots_of
        self._on_fenced = on_fenced
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="progress")
        self._readers: dict[str, LogMetricsReader] = {}
        self._pending_logs: dict[str, None] = {}
        self._read_task: asyncio.Task[None] | None = None
        self._busy_reader: LogMetricsReader | None = None
        """The reader that the thread uses now."""
        self._past_runs: dict[str, list[CompletedRun]] = {}
        self._usage: dict[str, dict[str, Usage]] = {}
        self._starts: dict[str, float] = {}
        self._unannounced: dict[str, None] = {}
        self._announced_at: dict[str, float] = {}
        self._announce_timer: asyncio.TimerHandle | None = None

    def on_growth(self, job_id: str) -> None:
        """Record that a job's log has grown."""
        if job_id in self._live_state.jobs:
            self._pending_logs[job_id] = None
            if self._read_task is None or self._read_task.done():
                self._read_task = asyncio.get_running_loop().create_task(self._read(), name="progress")

    def on_sample(self, job_id: str, host: str, figures: Usage) -> None:
        """Record the current resource usage of a job on one host."""
        job = self._live_state.jobs.get(job_id)
        if job is not None:
            used = self._usage.setdefault(job_id, {})
            used[host] = figures
            telemetry, now = self._telemetry(job), sum_usage(used.values())
            if _is_visible_change(telemetry.usage, now):
                self._change(job, replace(telemetry, usage=now))

    def tick(self) -> None:
        """Update the expected ends of running jobs, the heads of the queues, and the positions of jobs in them.

        Call it about once a second.
        """
        running = [job for job in self._live_state.jobs.values() if job.cluster]
        lines = {
            engine: self._live_state.job_queue.queued_jobs(engine)[:MAX_FORECAST_JOBS]
            for engine in self._live_state.job_queue.engines()
            if self._is_bounded(engine) or self._slots_of(engine) is not None
        }
        # An array may have ten thousand waiting tasks: update only jobs with an estimate.
        looked_at = {job.id: job for job in (*running, *(job for line in lines.values() for job in line))}
        for job in looked_at.values():
            if job.id not in self._past_runs:
                self._past_runs[job.id] = self._live_state.store.runs(
                    eta.code_hash(job.spec), eta.instances_key(job.spec)
                )
                if "first_line" in job.timings:
                    self.on_growth(job.id)  # it ran before this controller began
        # A job that was shorter than a second is in some of them only.
        for job_id in (
            self._past_runs.keys() | self._usage.keys() | self._announced_at.keys()
        ) - self._live_state.jobs.keys():
            self._drop_job(job_id)
        self._starts = self._expected_starts(running, lines)
        for job_id in looked_at.keys() | self._live_state.outlooks.keys():
            if job_id in self._live_state.jobs:
                self._update_forecast(self._live_state.jobs[job_id])
        for job in self._live_state.moved_jobs(EVENTS_PER_SECOND):
            self._unannounced[job.id] = None
        self._schedule_announcement()

    async def read_final_metrics(self, job: Job) -> LogMetrics:
        """Read the rest of a job's logs; a verdict waits for it a moment and no longer."""
        reader = self._reader(job)
        if reader.is_empty():
            self._drop_reader(job.id)
            return LogMetrics()
        try:
            if reader is not self._busy_reader and reader.is_short():
                return reader.read_remaining()
            return await asyncio.wait_for(self._in_thread(reader.read_remaining), FINAL_METRICS_TIMEOUT)
        except asyncio.TimeoutError:
            _log.warning("job=%s last metrics are late and were skipped", job.name)
        except Exception:  # noqa: BLE001 - border: a log may have any content, and no outcome may depend on its reader
            _log.exception("job=%s reading metrics failed", job.name)
        finally:
            self._drop_reader(job.id)
        telemetry = self._telemetry(job)
        return LogMetrics(progress=telemetry.progress, latest=telemetry.metrics, pace=telemetry.pace)

    def _drop_reader(self, job_id: str) -> None:
        self._readers.pop(job_id, None)
        self._pending_logs.pop(job_id, None)

    async def metrics(self, job: Job, attempt: int, since: float) -> JobMetrics:
        """Return the points of a run of a job after a moment; the run may have ended long ago."""
        over = is_over(job, attempt)
        reader = self._readers.get(job.id)
        if reader is None or reader.attempt != attempt:
            reader = self._new_reader(replace(job, attempt=attempt))
            if over:
                await self._in_thread(reader.read_after_run)  # what was not saved before the controller ended
        found = await self._in_thread(partial(reader.job_metrics, since))
        return replace(found, attempts=job.attempt, is_final=over)

    async def close(self) -> None:
        """Save what is known and let the thread go; a new controller reads on."""
        if self._announce_timer is not None:
            self._announce_timer.cancel()
        if self._read_task is not None:
            self._read_task.cancel()
            await asyncio.gather(self._read_task, return_exceptions=True)
        for reader in self._readers.values():
            await self._in_thread(reader.save)
        self._thread.shutdown(wait=False)

    async def _read(self) -> None:
        await asyncio.sleep(GATHER)
        while self._pending_logs:
            # In turns, so that one job's flood leaves the others theirs.
            job_id = next(iter(self._pending_logs))
            del self._pending_logs[job_id]
            job = self._live_state.jobs.get(job_id)
            if job is None:
                continue
            begun = time.monotonic()
            reader = self._busy_reader = self._reader(job)
            try:
                told = await self._in_thread(reader.read_next)
            except Exception:  # noqa: BLE001 - border: a log may have any content; other jobs' logs are read further
                _log.exception("job=%s reading metrics from the log failed", job.name)
                continue
            finally:
                self._busy_reader = None
            if told.more:
                self._pending_logs.setdefault(job_id, None)
            if self._readers.get(job_id) is reader:
                self._update_metrics(job, told)
            await asyncio.sleep(min(MAX_PAUSE, PAUSE_FACTOR * (time.monotonic() - begun)))

    def _reader(self, job: Job) -> LogMetricsReader:
        found = self._readers.get(job.id)
        if found is None or found.attempt != job.attempt:
            found = self._readers[job.id] = self._new_reader(job)
        return found

    def _new_reader(self, job: Job) -> LogMetricsReader:
        return LogMetricsReader(JobFolder(self._jobs_folder, job.id), job, self._live_state.clock)

    def _in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _update_metrics(self, job: Job, told: LogMetrics) -> None:
        self._change(job, replace(self._telemetry(job), progress=told.progress, metrics=told.latest, pace=told.pace))
        self._update_forecast(job)

    def _update_forecast(self, job: Job) -> None:
        telemetry = self._telemetry(job)
        if telemetry.progress is not None and "first_line" not in job.timings:
            telemetry = JobTelemetry()  # that was the attempt before
        expectation = self._expectation(job, telemetry.progress)
        if _is_new_estimate(telemetry.expectation, expectation):
            telemetry = replace(telemetry, expectation=expectation)
        start_at = self._starts.get(job.id)
        if (start_at is None) is not (telemetry.start_at is None) or _difference(
            start_at, telemetry.start_at
        ) > EVENT_INTERVAL:
            telemetry = replace(telemetry, start_at=start_at)
        self._change(job, telemetry)

    def _expectation(self, job: Job, progress: Progress | None) -> Expectation | None:
        past, now = self._past_runs.get(job.id, ()), self._live_state.clock()
        return eta.estimate_end(job, progress, past, now, self._waiting_at_engine(job))

    def _waiting_at_engine(self, job: Job) -> QueueStatus | None:
        cluster = self._live_state.cluster_of(job)
        return None if cluster is None else cluster.waiting

    def _expected_starts(self, running: list[Job], lines: Mapping[str, list[Job]]) -> dict[str, float]:
        """Return when the first jobs of each queue begin, if those before them end as expected."""
        found = self._starts_at_engines(running)
        now = self._live_state.clock()
        for engine, line in lines.items():
            slots = None if self._is_bounded(engine) else self._slots_of(engine)
            if slots is None:
                rivals = [job for job in running if self._is_bounded(job.spec.engine)]
            else:
                rivals = [job for job in running if job.spec.engine == engine]
            waits = eta.estimate_starts(
                [self._claim(job, self._remaining_time(job)) for job in rivals],
                [self._claim(job, self._run_time(job)) for job in line],
                self._live_state.limits,
                slots,
            )
            found |= {job.id: now + wait for job, wait in zip(line, waits, strict=True) if wait is not None}
        return found

    def _starts_at_engines(self, running: list[Job]) -> dict[str, float]:
        """Return when hosts that wait at their engine begin, if the engine has an estimate."""
        now = self._live_state.clock()
        waiting = {job.id: status for job in running if (status := self._waiting_at_engine(job)) is not None}
        left = {job_id: eta.seconds_to_start(status, now) for job_id, status in waiting.items()}
        return {job_id: now + seconds for job_id, seconds in left.items() if seconds is not None}

    def _claim(self, job: Job, seconds: float | None) -> eta.Claim:
        limits = self._live_state.limits_of(job.spec.engine)
        return eta.Claim(share=capacity.demand(job.spec.instance_groups, limits), seconds=seconds)

    def _run_time(self, job: Job) -> float | None:
        waiting = replace(job, created_at=self._live_state.clock(), spec=replace(job.spec, submitted_at=0.0))
        expected = self._expectation(waiting, None)
        return None if expected is None else expected.seconds

    def _remaining_time(self, job: Job) -> float | None:
        expected = self._expectation(job, self._telemetry(job).progress)
        passed = max(0.0, self._live_state.clock() - (job.spec.submitted_at or job.created_at))
        return None if expected is None else max(0.0, expected.seconds - passed)

    def _telemetry(self, job: Job) -> JobTelemetry:
        return self._live_state.outlooks.get(job.id) or JobTelemetry()

    def _change(self, job: Job, telemetry: JobTelemetry) -> None:
        if telemetry == self._telemetry(job) or job.id not in self._live_state.jobs:
            return
        self._live_state.outlooks[job.id] = telemetry
        self._unannounced[job.id] = None
        self._schedule_announcement()

    def _schedule_announcement(self) -> None:
        if self._announce_timer is None and self._unannounced:
            due = min(self._announced_at.get(job_id, 0.0) for job_id in self._unannounced) + self._pace()
            pause = max(GATHER, due - self._live_state.monotonic())
            self._announce_timer = asyncio.get_running_loop().call_later(pause, self._announce)

    def _pace(self) -> float:
        return max(EVENT_INTERVAL, len(self._live_state.outlooks) / EVENTS_PER_SECOND)

    def _announce(self) -> None:
        self._announce_timer = None
        now = self._live_state.monotonic()
        due = [
            job_id for job_id in self._unannounced if self._announced_at.get(job_id, 0.0) + self._pace() <= now + GATHER
        ]
        for job_id in due:
            del self._unannounced[job_id]
            self._announced_at[job_id] = now
        jobs = [self._live_state.jobs[job_id] for job_id in due if job_id in self._live_state.jobs]
        try:
            if jobs:
                self._live_state.announce(jobs)
        except FencedError:
            self._on_fenced()
            return
        except SmxError as error:
            _log.warning("publishing progress failed: %s", error)
        self._schedule_announcement()

    def _drop_job(self, job_id: str) -> None:
        for known in (
            self._past_runs,
            self._usage,
            self._announced_at,
            self._unannounced,
            self._readers,
            self._pending_logs,
        ):
            known.pop(job_id, None)


def _is_visible_change(old: Usage | None, new: Usage | None) -> bool:
    """Return True if a bar would look different: not for every percent and every page."""
    if old is None or new is None:
        return old is not new
    pairs = (
        (old.cpu_percent, new.cpu_percent, VISIBLE_CHANGE),
        (old.gpu_percent, new.gpu_percent, VISIBLE_CHANGE),
        (old.memory_bytes, new.memory_bytes, 0.02 * (old.memory_bytes or 0)),
        (old.gpu_memory_bytes, new.gpu_memory_bytes, 0.02 * (old.gpu_memory_bytes or 0)),
    )
    return any((one is None) is not (other is None) or _difference(one, other) > least for one, other, least in pairs)


def _difference(one: float | None, other: float | None) -> float:
    return abs((one or 0.0) - (other or 0.0))


def _is_new_estimate(old: Expectation | None, new: Expectation | None) -> bool:
    """Return True if a person would see another number: not for every tenth of a second of a bar's own estimate."""
    if old is None or new is None:
        return old is not new
    return old.basis != new.basis or abs(old.seconds - new.seconds) > max(0.5, 0.02 * old.seconds)

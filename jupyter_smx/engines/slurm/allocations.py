"""The jobs of clusters: submit, follow and cancel them, each with a record on this machine's disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import chain, repeat
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.engines.remote.machine import NoAnswerError
from jupyter_smx.engines.slurm import lifecycle, reasons, submission
from jupyter_smx.engines.slurm.client import HeterogeneousJobError
from jupyter_smx.engines.slurm.parsers import AccountingRow
from jupyter_smx.engines.slurm.queue_watch import QueueWatch
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.results.usage import PlatformUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence

    from jupyter_smx.engines.remote.record_folder import RecordFolder
    from jupyter_smx.engines.slurm.client import SlurmClient
    from jupyter_smx.engines.slurm.parsers import PartitionRow, QueueRow
    from jupyter_smx.engines.slurm.partition_store import PartitionStore
    from jupyter_smx.engines.slurm.record import AllocationRecord
    from jupyter_smx.engines.slurm.submission import BatchJob
    from jupyter_smx.model.errors import SmxError
    from jupyter_smx.model.records.cluster import Handle, HostHandle, QueueStatus

    Plan = Callable[[Sequence[PartitionRow], int | None], tuple[BatchJob, str]]
    """Returns a batch job and its script."""

FIRST_DELAYS = (0.3, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0)
"""Seconds between the looks after a submission, before those at the usual interval."""
_ACCOUNTING_DELAYS = (1.0, 2.0)
"""Seconds before each further look at the accounting: the database gets the last figures after the end."""
_ACCOUNTING_LIMIT = 5.0
"""Seconds in which the accounting may answer before a reason is given without its figures."""
_ANSWER_AGE = 10.0
"""Seconds for which what Slurm and its accounting say of an ended job counts for the other hosts of it."""
_END_PAUSE = 2.0
"""Seconds between two looks at a job that takes long to end."""


class Allocations:
    """Follows the jobs of one owner. ``clock`` and ``wall_clock`` return seconds, the first one only runs forward."""

    def __init__(
        self,
        client: SlurmClient,
        partitions: PartitionStore,
        owner: Callable[[], str],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._partitions = partitions
        self._owner = owner
        self._clock = clock
        self._wall_clock = wall_clock
        self._accounting: dict[str, tuple[float, AccountingRow | None]] = {}
        self._accounting_lock = asyncio.Lock()
        self._descriptions: dict[str, tuple[float, asyncio.Future[dict[str, str]]]] = {}
        self.watch = QueueWatch(client.queue, clock)

    def name_of(self, cluster: str) -> str:
        """Return the name of a cluster's job."""
        return submission.job_name(self._owner(), cluster)

    # Launch

    async def wait_for_nodes(
        self,
        records: RecordFolder[AllocationRecord],
        cluster: str,
        plan: Plan,
        interval: float,
    ) -> AsyncGenerator[QueueStatus, None]:
        """Do one step after the other until the job has its nodes, which are then on record.

        ``plan`` returns the job and its script from the partitions that Slurm has, and the number of the instance group
        where each has a job of its own, else None. ``interval`` is the number of seconds between two looks in the long
        run.

        :raises RefusedError: Slurm accepts no such job, or can never start it, or the cluster was released meanwhile.
        :raises UnavailableError: Slurm gives no answer, or the job has ended.
        """
        delays, pause, shown = delays_of(interval), 0.0, None
        while True:
            record = read(records, cluster)
            await self._check_not_released(records, cluster, record)
            # An answer that is as old as the last pause began after the submission.
            jobs = (await self.watch.look(pause)).get(record.name, {}) if record.submitted_at else {}
            step = lifecycle.next_step(record, jobs, self._wall_clock(), self._node_counts())
            if isinstance(step, lifecycle.LaunchHosts):
                records.write(cluster, with_nodes(record, step.rows))
                return
            if not isinstance(step, lifecycle.ReportWait):
                await self._do(records, cluster, step, record, plan)
                pause = self.watch.spacing()
                await asyncio.sleep(pause)
                continue
            if step.status != shown:
                shown = step.status
                yield step.status
            if not record.is_submitted() and not record.missed_since:
                records.write(cluster, replace(record, missed_since=self._wall_clock()))
            pause = max(next(delays), self.watch.spacing())
            await asyncio.sleep(pause)

    async def _check_not_released(
        self, records: RecordFolder[AllocationRecord], cluster: str, record: AllocationRecord
    ) -> None:
        """Cancel the job of a cluster that was released before this process had submitted it.

        A release writes its mark before it looks for jobs, and a launch looks for the mark after each submission. So
        one of both finds the job.

        :raises RefusedError: the cluster was released.
        """
        if not records.is_released(cluster):
            return
        if record.job_ids():
            await self._client.cancel(record.job_ids())
        raise request_validation.released_error(cluster)

    async def _do(
        self,
        records: RecordFolder[AllocationRecord],
        cluster: str,
        step: lifecycle.Step,
        record: AllocationRecord,
        plan: Plan,
    ) -> None:
        if isinstance(step, lifecycle.SubmitJob):
            await self._submit(records, cluster, record, plan)
        elif isinstance(step, lifecycle.AdoptJob):
            records.write(cluster, record.with_job(step.job, record.submitted_at))
            if step.cancel:
                await self._client.cancel(step.cancel)
        elif isinstance(step, lifecycle.RefuseJob):
            await self._client.cancel(record.job_ids())
            raise step.error
        elif isinstance(step, lifecycle.FailLaunch):
            details = await self._client.describe(step.job)
            await self._client.cancel(record.job_ids())  # a job that squeue does not list may still run
            records.release(cluster)  # its hosts cannot come any more
            raise lifecycle.end_error(step.job, step.state or details.get("JobState", ""), details)

    async def _submit(
        self,
        records: RecordFolder[AllocationRecord],
        cluster: str,
        record: AllocationRecord,
        plan: Plan,
    ) -> None:
        """Submit the next job; what was accepted without an answer is found by its name later.

        Where the site takes no heterogeneous job, the record has a job for each instance group from then on. Of those
        all are cancelled with one that is not accepted: nodes without the others are no cluster.

        :raises RefusedError, UnavailableError: as :meth:`SlurmClient.submit`.
        """
        rows = await self._client.partitions()
        self._partitions.write(rows)
        planned, script = plan(rows, record.next_group())
        record = replace(record, notice=planned.notice, seconds=planned.seconds, longest=planned.longest)
        records.write(cluster, record.with_job("", self._wall_clock()))
        try:
            job = await self._client.submit(planned, script)
        except NoAnswerError:
            raise
        except HeterogeneousJobError:
            records.write(cluster, replace(record, submitted_at=0.0, job_per_group=True))
            return
        except (RefusedError, UnavailableError):
            if record.job_ids():
                await self._client.cancel(record.job_ids())
            records.write(cluster, replace(record, submitted_at=0.0, group_jobs=()))
            raise
        records.write(cluster, record.with_job(job, self._wall_clock()))

    def _node_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in self._partitions.read():
            counts[row.name] = counts.get(row.name, 0) + row.nodes
        return counts

    # Observation

    def observe(
        self,
        record: AllocationRecord | None,
        handle: Handle,
        queue: Mapping[str, Mapping[str, list[QueueRow]]],
    ) -> Observation:
        """Conclude the state of a cluster from the answer of Slurm that ``queue`` is."""
        now = self._wall_clock()
        if record is not None and record.submitted_at > now - self.watch.age():
            return Observation.UNKNOWN  # the answer is older than the job
        jobs = queue.get(self.name_of(handle.cluster), {})
        ids = (record.job_ids() if record else ()) or jobs_of(handle)
        return lifecycle.observe(record, ids, jobs, now, has_hosts=bool(handle.hosts))

    async def live_jobs(self, cluster: str, oldest: float = 0.0) -> list[str]:
        """List the jobs of a cluster's name that have not ended, by an answer of at most ``oldest`` seconds ago.

        :raises UnavailableError: Slurm does not answer.
        """
        return _live((await self.watch.look(oldest)).get(self.name_of(cluster), {}))

    async def own_clusters(self) -> dict[str, list[str]]:
        """List the clusters of this owner that have jobs which have not ended, with the ids of these.

        :raises UnavailableError: Slurm does not answer.
        """
        queue = await self.watch.look()
        clusters = {submission.cluster_of(self._owner(), name): _live(jobs) for name, jobs in queue.items()}
        return {cluster: jobs for cluster, jobs in clusters.items() if cluster and jobs}

    async def end_reason(self, record: AllocationRecord) -> str:
        """Return how Slurm ended the first ended job of a record, or is about to end it; "" while all run on.

        :raises UnavailableError: Slurm does not answer.
        """
        for job in record.job_ids():
            reason = await self._end_reason_of(job, record.notice)
            if reason:
                return reason
        return ""

    async def _end_reason_of(self, job: str, notice: float) -> str:
        details = await self._describe(job)
        state = details.get("JobState", "")
        if reasons.is_requeued(details):
            return reasons.end_sentence(state, details)
        if state in reasons.RUNNING:
            return reasons.notice_sentence(details, self._wall_clock(), notice)
        if state in reasons.PENDING:
            return ""
        row = await self._read_accounting_soon(job)
        if row is not None and state in ("", "CANCELLED", *reasons.COMPLETING):
            # Slurm forgets soon, shows no reason while it ends processes, and only its accounting has the user that
            # cancelled a job.
            state = row.state if reasons.is_final(row.state) else state
        figures = platform_usage(job, row).figures() if row is not None else ""
        return f"{reasons.end_sentence(state, details)}{f' It ran for {figures}.' if figures else ''}"

    async def _describe(self, job: str) -> dict[str, str]:
        """Return what Slurm shows of a job. Its hosts share one answer, for some seconds if the job has ended.

        An answer that began earlier counts only if it shows the end: a host may be lost after what it describes.

        :raises UnavailableError: Slurm does not answer.
        """
        now = self._clock()
        self._descriptions = {key: row for key, row in self._descriptions.items() if row[0] >= now - _ANSWER_AGE}
        while True:
            began_at, answer = self._descriptions.get(job, (now, None))
            if answer is None or (answer.done() and not _shows_end(answer)):
                began_at, answer = self._clock(), asyncio.ensure_future(self._client.describe(job))
                self._descriptions[job] = (began_at, answer)
                answer.add_done_callback(_shows_end)  # reads the error, which all waiters may have given up
            details = await asyncio.shield(answer)
            if began_at >= now or _shows_end(answer):
                return details

    async def _read_accounting_soon(self, job: str) -> AccountingRow | None:
        """Return the row of a job; None if it does not come in time, because the reason of an end counts more.

        The hosts of a job share one row of an ended job, and one failure: each may take seconds.
        """
        async with self._accounting_lock:
            oldest = self._clock() - _ANSWER_AGE
            self._accounting = {key: answer for key, answer in self._accounting.items() if answer[0] >= oldest}
            if job not in self._accounting:
                row = None
                with suppress(UnavailableError, asyncio.TimeoutError):
                    row = await asyncio.wait_for(self._client.read_accounting(job), _ACCOUNTING_LIMIT)
                    if row is None or not reasons.is_final(row.state):
                        return row
                self._accounting[job] = (self._clock(), row)
            return self._accounting[job][1]

    async def read_accounting(self, jobs: Sequence[str]) -> PlatformUsage | None:
        """Return the figures of jobs that have ended, together; None if one has none.

        :raises UnavailableError: Slurm does not answer.
        """
        found = [await self._read_final_accounting(job) for job in jobs]
        rows = [row for row in found if row is not None]
        return platform_usage(", ".join(jobs), add_rows(rows)) if rows and len(rows) == len(found) else None

    async def _read_final_accounting(self, job: str) -> AccountingRow | None:
        """Return the row of a job that has ended, after a moment for the last figures."""
        row = await self._client.read_accounting(job)
        for delay in _ACCOUNTING_DELAYS:
            if row is None or reasons.is_final(row.state):
                break
            await asyncio.sleep(delay)
            row = await self._client.read_accounting(job)
        # Figures of a job that runs are no final ones, and nothing reads them again.
        return None if row is None or not reasons.is_final(row.state) else row

    async def may_run(self, record: AllocationRecord) -> bool:
        """Return True if the job of a record runs, or Slurm does not answer."""
        try:
            jobs = (await self.watch.look()).get(record.name, {})
        except UnavailableError:
            return True
        rows = [row for job in record.job_ids() for row in jobs.get(job, [])]
        is_listed = all(jobs.get(job) for job in record.job_ids())
        return is_listed and bool(rows) and all(row.state in reasons.RUNNING for row in rows)

    async def launch_error(self, record: AllocationRecord, error: UnavailableError) -> SmxError:
        """Return how the job of a launch ended; ``error`` if it has not, or if Slurm does not answer."""
        for job in record.job_ids():
            try:
                details = await self._client.describe(job)
            except UnavailableError:
                return error
            state = details.get("JobState", "")
            if state not in ("", *reasons.PENDING, *reasons.RUNNING):
                return lifecycle.end_error(job, state, details)
        return error

    # End

    def check_late_submission(self, record: AllocationRecord | None) -> None:
        """Raise while a submission without an answer may still arrive.

        :raises UnavailableError: it may.
        """
        if record is None or record.is_submitted():
            return
        if self._wall_clock() - record.submitted_at < lifecycle.LATE_SUBMISSION:
            raise UnavailableError("Slurm gave no answer to the submission, which may still arrive.", transient=True)

    async def cancel_unlisted(self, record: AllocationRecord | None, handle: Handle) -> None:
        """Cancel the jobs of a cluster that ``squeue`` does not list: they may run all the same.

        :raises UnavailableError: Slurm does not answer.
        """
        jobs = (record.job_ids() if record is not None else ()) or jobs_of(handle)
        if jobs:
            await self._client.cancel(jobs)

    async def cancel(self, cluster: str, jobs: Sequence[str], timeout: float) -> None:
        """Cancel jobs of a cluster, and wait until Slurm has ended all their processes; by force after half the time.

        :raises UnavailableError: Slurm does not answer, or they have not ended within ``timeout`` seconds.
        """
        await self._client.cancel(jobs)
        loop = asyncio.get_running_loop()
        begin, is_forced, pause = loop.time(), False, self.watch.spacing()
        for delay in delays_of(_END_PAUSE):
            await asyncio.sleep(pause)
            # An answer that is as old as the last pause began after the cancellation.
            left = [job for job in await self.live_jobs(cluster, pause) if job in jobs]
            if not left:
                return
            passed = loop.time() - begin
            if passed > timeout:
                break
            if not is_forced and passed > timeout / 2:
                is_forced = True
                await self._client.cancel(left, force=True)
            pause = max(delay, self.watch.spacing())
        raise UnavailableError(f"Slurm still ends the job {', '.join(jobs)}.", transient=True)

    async def cancel_orphans(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Cancel the jobs of this owner whose clusters ``known`` does not have; return these clusters.

        :raises UnavailableError: Slurm does not answer.
        """
        clusters = await self.own_clusters()
        orphans = {cluster: jobs for cluster, jobs in clusters.items() if cluster not in known()}
        if orphans:
            await self._client.cancel([*chain.from_iterable(orphans.values())])
        return [*orphans]


def read(records: RecordFolder[AllocationRecord], cluster: str) -> AllocationRecord:
    """Read the record of a cluster that has one.

    :raises UnavailableError: it was deleted, or cannot be read.
    """
    record = records.read(cluster)
    if record is None:
        raise UnavailableError(f"The record of cluster {cluster} was deleted.", transient=True)
    return record


def platform_usage(job: str, row: AccountingRow) -> PlatformUsage:
    """Return the figures of a job as its record has them. Pure."""
    return PlatformUsage(
        name=f"Slurm job {job}",
        state=row.state,
        nodes=row.nodes,
        elapsed_seconds=row.elapsed,
        cpu_seconds=row.cpu,
        peak_memory_bytes=row.memory,
    )


def add_rows(rows: Sequence[AccountingRow]) -> AccountingRow:
    """Add up the figures of the jobs of one cluster; the state is that of the first one that did not complete. Pure."""
    known = [row.cpu for row in rows if row.cpu is not None]
    return AccountingRow(
        state=next((row.state for row in rows if row.state != "COMPLETED"), "COMPLETED"),
        nodes=sum(row.nodes for row in rows),
        elapsed=max((row.elapsed for row in rows if row.elapsed is not None), default=None),
        cpu=sum(known) if known else None,
        memory=max((row.memory for row in rows if row.memory is not None), default=None),
    )


def delays_of(usual: float) -> Iterator[float]:
    """Give the seconds between looks: short ones first, then ``usual`` without end."""
    return chain((delay for delay in FIRST_DELAYS if delay < usual), repeat(usual))


def jobs_of(handle: Handle) -> tuple[str, ...]:
    """Return the ids of the jobs that a handle names, none if it has no hosts. Pure."""
    return tuple(dict.fromkeys(str(host.data["job"]) for host in handle.hosts if "job" in host.data))


def with_nodes(record: AllocationRecord, rows: Sequence[QueueRow]) -> AllocationRecord:
    """Give each host a node of its component, in the order of both; keep nodes that are on record. Pure."""
    left = {row.component: [*row.nodes] for row in rows}
    nodes = {host: left[component].pop(0) for host, component in record.components.items()}
    ends = [row.end for row in rows if row.end is not None]
    return replace(record, nodes=record.nodes or nodes, ends_at=record.ends_at or min(ends, default=None))


def with_host(record: AllocationRecord, launched: HostHandle) -> AllocationRecord:
    """Add a host that listens, in the job's order. Pure."""
    hosts = {host.host: host for host in (*record.hosts, launched)}
    return replace(record, hosts=tuple(hosts[name] for name in record.components if name in hosts))


def _live(jobs: Mapping[str, Sequence[QueueRow]]) -> list[str]:
    return [job for job, rows in jobs.items() if not lifecycle.is_ended(rows)]


def _shows_end(answer: asyncio.Future[dict[str, str]]) -> bool:
    """Return True if an answer of Slurm shows a job that has ended, or that Slurm has forgotten."""
    if answer.cancelled() or answer.exception() is not None:
        return False
    state = answer.result().get("JobState", "")
    return not state or reasons.is_final(state)

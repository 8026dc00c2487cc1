"""Keep live jobs and clusters in memory, write every change through to the store, and record an event for it."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.agent.system.processes.process_table import boot_id
from jupyter_smx.controller.clock import CLOCK_CHANGE_THRESHOLD, ClockOffset, monotonic_clock
from jupyter_smx.controller.errors import RecordsError, disk_wait, is_records_disk_full, log_and_continue
from jupyter_smx.controller.state.engine_limits import EngineLimits
from jupyter_smx.controller.state.job_queue import JobQueue
from jupyter_smx.model.errors import ResourceNotFoundError, suggest_names
from jupyter_smx.model.records.cluster import Cluster, ClusterState, ReuseKey, WarmPoolStatus
from jupyter_smx.model.records.event import Event, PoolSummary
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.reports import JobAdvice
from jupyter_smx.model.status import Status, is_final
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.accounting import profiler_rules as advice
from jupyter_smx.policy.hosts.job_folders import starts_in_root
from jupyter_smx.policy.lifecycle import launch, renewal, transitions
from jupyter_smx.policy.lifecycle.dependencies import Predecessor, array_dependency_status
from jupyter_smx.policy.lifecycle.environment import is_building

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jupyter_smx.controller.db.store import Store
    from jupyter_smx.controller.state.change_signal import ChangeSignal
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job, JobSummary
    from jupyter_smx.model.results.progress import JobTelemetry, StepPace
    from jupyter_smx.model.results.reports import Bill
    from jupyter_smx.model.results.usage import JobUsage, PlatformUsage
    from jupyter_smx.model.spec.array import Array
    from jupyter_smx.model.spec.instance import Catalogue
    from jupyter_smx.policy.limits import Limits

_log = logging.getLogger(__name__)


class LiveState:
    """All records that are not final, and the only way to write them.

    ``outlooks`` holds facts about live jobs beside their records: progress, expected end. ``holders`` maps an idle pool
    to the finished job whose record describes it (``WarmPoolStatus``). Records are written by ``clock``, seconds since
    the epoch, which may be set; waits are measured by ``monotonic``, which only runs forward.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits,
        clock: Callable[[], float],
        change_signal: ChangeSignal,
        monotonic: Callable[[], float] = monotonic_clock,
        boot: str | None = None,
        engine_of: Callable[[str], Engine] | None = None,
    ) -> None:
        self.store = store
        self.limits = limits
        self.limits_of: Callable[[str], Limits] = (
            EngineLimits(limits, engine_of, monotonic) if engine_of else lambda _name: limits
        )
        """The limits for the jobs of an engine, with the instance types that it brings."""
        self.clock = clock
        self.monotonic = monotonic
        self._boot = boot_id() if boot is None else boot
        self._clock_offset = clock() - monotonic()
        before = store.clock_offset()
        self._is_offset_saved = before is not None and before.boot == self._boot
        if before is not None and self._is_offset_saved:
            # The records use the clock of the last controller, which may have been set since that exited.
            self._clock_offset = before.seconds
        self.change_signal = change_signal
        self.jobs: dict[str, Job] = {job.id: job for job in store.live_jobs()}
        self.clusters: dict[str, Cluster] = {cluster.id: cluster for cluster in store.live_clusters()}
        self.job_queue = JobQueue(self.jobs, store.job, self._array)
        self.outlooks: dict[str, JobTelemetry] = {}
        self.holders: dict[str, Job] = {}
        self._python_versions: dict[tuple[str, str, str], str] = {}
        self.exit_reasons: dict[str, str] = {}
        """A host's reason for the end of a cluster; it is recorded when the cluster has ended."""
        self.unreachable: dict[str, str] = {}
        """Why hosts of a cluster cannot be reached now, by the cluster."""
        self._reported_positions: dict[str, int] = self.job_queue.positions()
        """The positions in the newest events; at the start those are of the controller before."""
        self._disk_wait = ""
        """Reason why records cannot be written, as "for free disk space"; "" while they can."""
        for cluster in self.clusters.values():
            self._find_holder(cluster)
            self._note_python_version(cluster)

    def _array(self, ref: str) -> Predecessor | None:
        found = self.store.arrays.array(ref)
        if found is None:
            return None
        status = array_dependency_status(self.store.arrays.counts(ref), found.size)
        bad = self.store.arrays.first_with_status(ref, status) if status in {Status.FAILED, Status.STOPPED} else None
        return Predecessor(name=found.name, status=status, reason=f"{bad.name}: {bad.message}" if bad else "")

    def _find_holder(self, cluster: Cluster) -> None:
        if cluster.state is ClusterState.AVAILABLE and cluster.last_job:
            with log_and_continue(_log, "pool={} reading its last job failed", cluster.name()):
                self.holders[cluster.id] = self.store.find_job(cluster.last_job)

    def save(
        self,
        *,
        jobs: Sequence[Job] = (),
        clusters: Sequence[Cluster] = (),
        array: Array | None = None,
        clock: ClockOffset | None = None,
        durable: bool = False,
    ) -> None:
        """Write records and their events in one transaction; ended ones leave the memory. ``array`` has new jobs.

        :raises FencedError: another controller owns the store now.
        """
        now = self.clock()
        with self.job_queue.preview(jobs):
            events = [Event(seq=0, at=now, job=self.summary(job)) for job in jobs]
        events += [Event(seq=0, at=now, pool=self.pool_summary(cluster, jobs)) for cluster in clusters]
        has_ends = any(is_final(job.state) for job in jobs)
        write = partial(self.store.write, jobs, clusters, events, array=array, clock=clock, durable=durable)
        self._write(write, may_use_reserve=has_ends)
        self._note_positions(events)
        for job in jobs:
            if is_final(job.state):
                self.jobs.pop(job.id, None)
                self.outlooks.pop(job.id, None)
                self._renew_holder(job)
            else:
                self.jobs[job.id] = job
        self.job_queue.update(jobs)
        for cluster in clusters:
            self._note_python_version(cluster)
            if cluster.is_live():
                self.clusters[cluster.id] = cluster
            else:
                self.clusters.pop(cluster.id, None)
                self.exit_reasons.pop(cluster.id, None)
                self.unreachable.pop(cluster.id, None)
            if cluster.state is not ClusterState.AVAILABLE:
                # Only once it is on the disk: a failed write must leave the pool and its job as they were.
                self.holders.pop(cluster.id, None)
        self.change_signal.notify_all()

    def _renew_holder(self, job: Job) -> None:
        """Replace the record of the job that an idle pool has as its last one."""
        for pool, holder in self.holders.items():
            if holder.id == job.id:
                self.holders[pool] = job

    def _write(self, write: Callable[[], object], *, may_use_reserve: bool = False) -> None:
        """Write records; on a full disk the reserve is for the ends of jobs, which free room and let others go on."""
        try:
            try:
                write()
            except RecordsError as error:
                if not (may_use_reserve and is_records_disk_full(error) and self.store.reserve.release()):
                    raise
                write()
        except RecordsError as error:
            self._disk_wait = disk_wait(error)
            raise
        self._disk_wait = ""

    def retry_disk(self) -> None:
        """Write once more where records could not be written: lists show that they wait until one is written again."""
        if self._disk_wait:
            with suppress(RecordsError):
                self.save(clock=ClockOffset(self._boot, self._clock_offset))

    def _note_python_version(self, cluster: Cluster) -> None:
        if cluster.hosts and cluster.hosts[0].python_version:
            self._python_versions[_interpreter_of(cluster.key)] = cluster.hosts[0].python_version

    def python_version(self, key: ReuseKey) -> str:
        """Return the version of an interpreter as hosts last reported it, as ``3.9.18``; "" before the first report.

        It is stored by engine, interpreter and image while this controller runs, and as long as a cluster lives.
        """
        return self._python_versions.get(_interpreter_of(key), "")

    def announce(self, jobs: Sequence[Job]) -> None:
        """Announce live jobs whose outlook changed; their records stay as they are.

        :raises FencedError: another controller owns the store now.
        """
        events = [Event(seq=0, at=self.clock(), job=self.summary(job)) for job in jobs]
        self._write(partial(self.store.write, events=events))
        self._note_positions(events)
        self.change_signal.notify_all()

    def _note_positions(self, events: Iterable[Event]) -> None:
        for job in (event.job for event in events if event.job is not None):
            if job.queue_position is None:
                self._reported_positions.pop(job.id, None)
            else:
                self._reported_positions[job.id] = job.queue_position

    def moved_jobs(self, limit: int) -> list[Job]:
        """Return waiting jobs that moved in their queue since their last event, ``limit`` of them at most.

        A job moves when one before it starts, and then nothing of its own record changes.
        """
        return self.job_queue.outdated_jobs(self._reported_positions, limit)

    def delete_job(self, job: Job) -> None:
        """Delete the record of a finished job and announce that it is gone.

        :raises FencedError: another controller owns the store now.
        """
        self.store.delete_job(job.id, self.clock())
        self.change_signal.notify_all()

    def detect_clock_change(self) -> None:
        """Shift the ends of idle pools and the start times of running jobs when the wall clock was set."""
        apart = self.clock() - self.monotonic()
        jump = apart - self._clock_offset
        was_set = abs(jump) >= CLOCK_CHANGE_THRESHOLD
        if self._is_offset_saved and not was_set:
            return
        idle = [each for each in self.clusters.values() if was_set and each.state is ClusterState.AVAILABLE]
        busy = [each for each in self.jobs.values() if was_set and (each.counted_from or each.wait_until)]
        self.save(
            jobs=[transitions.shift_job_times(job, jump) for job in busy],
            clusters=[transitions.shift_pool_times(pool, jump) for pool in idle],
            clock=ClockOffset(self._boot, apart),
        )
        self._clock_offset, self._is_offset_saved = apart, True

    def job(self, ref: str) -> Job:
        """Find a job by id, name, prefix or base name.

        :raises ResourceNotFoundError: none or several.
        """
        return self.jobs.get(ref) or self._holder(ref) or self.store.find_job(ref)

    def _holder(self, ref: str) -> Job | None:
        # Fast path: a client that waited for a job reads it again at its end, when it holds the pool that it left.
        return next((job for job in self.holders.values() if job.id == ref), None)

    def refresh_summaries(self, rows: Iterable[JobSummary]) -> list[JobSummary]:
        """Return rows of the records, updated with live values."""
        return [self._listed(self.summary(self.jobs[row.id])) if row.id in self.jobs else row for row in rows]

    def _listed(self, row: JobSummary) -> JobSummary:
        if not self._disk_wait:
            return row
        return replace(row, message=f"{row.message} Its next step waits {self._disk_wait}.".lstrip())

    def list_pools(self) -> list[PoolSummary]:
        """Return all live clusters for the list of pools, with what their records wait for."""
        waits = f"Its next step waits {self._disk_wait}." if self._disk_wait else ""
        return [replace(self.pool_summary(cluster), disk_wait=waits) for cluster in self.clusters.values()]

    def _catalogue_of(self, engine: str) -> Catalogue:
        return self.limits_of(engine).catalogue

    def cluster_of(self, job: Job) -> Cluster | None:
        """Return the live cluster of a job."""
        return self.clusters.get(job.cluster)

    def summary(self, job: Job) -> JobSummary:
        """Return the summary of a job, as lists show it, with its place in the queue and its cost so far."""
        # The queue changes after the record is written: until then it has a position that the job has left.
        stands = not job.cluster and not is_final(job.state) and not is_building(job.timings)
        position = self.job_queue.position(job) if stands else None
        cost = price.job_cost(job, self._catalogue_of(job.spec.engine), self.clock())
        outlook = None if is_final(job.state) else self.outlooks.get(job.id)
        return summary_of(job, queue_position=position, cost=cost, outlook=outlook)

    def bill(self, job: Job) -> Bill:
        """Return the bill of a job; until now if it is not over."""
        return price.bill(job, self._catalogue_of(job.spec.engine), self.clock(), self.pace(job))

    def pace(self, job: Job) -> StepPace | None:
        """Return the pace of a job's steps; None if it counts none."""
        outlook = None if is_final(job.state) else self.outlooks.get(job.id)
        return outlook.pace if outlook and outlook.pace else job.pace

    def advice(self, job: Job, usage: JobUsage) -> JobAdvice:
        """Return the findings of the rules about a job's resource usage."""
        known = self._catalogue_of(job.spec.engine)
        setting = advice.PredictionInput(job.spec.instance_groups, known, self.pace(job))
        return JobAdvice(job=job.name, advice=advice.advise(usage.hosts, setting), is_final=usage.is_final)

    def pool_summary(self, cluster: Cluster, news: Sequence[Job] = ()) -> PoolSummary:
        """Return a cluster for the list of pools; ``news`` are jobs that are being written in the same transaction."""
        idle = cluster.retained_seconds + transitions.idle_seconds(cluster, self.clock())
        first = cluster.hosts[0] if cluster.hosts else None
        hosts = cluster.handle.hosts if cluster.handle else ()
        known = self._catalogue_of(cluster.key.engine)
        ends_at = cluster.handle.allocation_ends_at if cluster.handle else None
        job = next((job for job in news if job.id == cluster.job), self.jobs.get(cluster.job))
        return PoolSummary(
            id=cluster.id,
            name=cluster.name(),
            engine=cluster.key.engine,
            instances=" + ".join(f"{g.instance_type} × {g.instance_count}" for g in cluster.key.instance_groups),
            state=cluster.state.value,
            created_at=cluster.created_at,
            # Hosts that do not exist yet have no time that a user could extend.
            expires_at=None if cluster.state is ClusterState.PROVISIONING else cluster.expires_at,
            job=job.name if job else cluster.job,
            last_job=cluster.last_job,
            jobs_served=cluster.jobs_served,
            saved_seconds=cluster.saved_seconds(),
            idle_seconds=idle,
            idle_cost=price.cost(cluster.key.instance_groups, idle, known),
            idle_since=cluster.available_since,
            price_per_hour=price.rate(cluster.key.instance_groups, known),
            isolation=first.isolation if first else "",
            preloaded=first.preloaded if first else (),
            reason=launch.pool_reason(cluster, self.clock()),
            image=cluster.key.image,
            machines=tuple(dict.fromkeys(host.machine for host in hosts if host.machine)),
            unreachable=self.unreachable.get(cluster.id, ""),
            allocation_ends_at=ends_at,
            nodes=price.counted_nodes(cluster.key.instance_groups, known, in_allocation=ends_at is not None),
        )

    def pool(self, ref: str) -> Cluster:
        """Find a live pool by id, name, or the beginning of either.

        :raises ResourceNotFoundError: none or several.
        """
        clusters = list(self.clusters.values())
        exact = [cluster for cluster in clusters if ref in {cluster.id, cluster.name()}]
        near = exact or [c for c in clusters if ref and (c.id.startswith(ref) or c.name().startswith(ref))]
        if len(near) == 1:
            return near[0]
        names = [each.name() for each in clusters]
        raise ResourceNotFoundError(
            f"There is no pool {ref!r}.",
            field="pool",
            value=ref,
            rule=f"Live pools: {', '.join(names) or 'none'}.",
            cure=suggest_names(ref, names),
        )

    def save_cluster_end(self, cluster: Cluster, reason: str, *, has_usage: bool = False) -> None:
        """Record that a cluster is gone, on its own record and on the last job's if it was idle.

        ``has_usage`` is True if its platform accounts it, and the figures are still to be read.
        """
        gone = transitions.mark_terminated(cluster, reason, self.clock())
        last_job = cluster.job or cluster.last_job or self._job_before(cluster)
        gone = replace(gone, usage_job=(last_job or None) if has_usage else None)
        self.save(jobs=self._update_holder(cluster, gone.reason), clusters=[gone])

    def save_platform_usage(self, cluster: str, usage: PlatformUsage | None) -> None:
        """Record what the platform accounted for a cluster that has ended, on its record and on the last job's. Blocks.

        None records that it accounted nothing. A job that is not final yet gets the figures when it is finalized.
        """
        gone = self.store.cluster(cluster)
        if gone is None or gone.usage_job is None:
            return
        jobs = [transitions.set_platform_usage(job, usage) for job in self._last_job(gone) if usage is not None]
        self.save(jobs=jobs, clusters=[replace(gone, platform_usage=usage, usage_job=None)])

    def _job_before(self, cluster: Cluster) -> str:
        """Return the last job of the pool that hosts without a job continued, "" if there is none. Blocks."""
        before: Cluster | None = cluster
        while before is not None and before.renewal_of and not before.last_job:
            before = self.clusters.get(before.renewal_of) or self.store.cluster(before.renewal_of)
        return before.last_job if before is not None and before.id != cluster.id else ""

    def _last_job(self, cluster: Cluster) -> list[Job]:
        """Return the job whose record gets the figures, none if it is not final, or its record was deleted. Blocks."""
        with suppress(ResourceNotFoundError):
            last = self.store.find_job(cluster.usage_job or "")
            was_reused = last.warm_pool is not None and last.warm_pool.status is WarmPoolStatus.REUSED
            is_its_last = last.cluster == cluster.id or cluster.usage_job == self._job_before(cluster)
            return [last] if is_final(last.state) and is_its_last and not was_reused else []
        return []

    def release_pool(self, cluster: Cluster, reason: str, *, is_continued: bool = False) -> Cluster:
        """Record that an idle pool is released, also on the last job's record; unless continued, its successor ends."""
        leaving = transitions.release(cluster, reason, self.clock())
        ended = [] if is_continued else self.ended_with(cluster)
        self.save(jobs=self._update_holder(cluster, reason), clusters=[leaving, *ended])
        return leaving

    def ended_with(self, pool: Cluster) -> list[Cluster]:
        """Return the record of the hosts that would continue a pool, after the decision not to keep it."""
        return renewal.ended_with(self.clusters.get(pool.renewed_by), self.clock())

    def _update_holder(self, cluster: Cluster, reason: str) -> list[Job]:
        holder = self.holders.get(cluster.id)
        idle = transitions.idle_seconds(cluster, self.clock())
        return [transitions.set_pool_terminated(holder, reason, idle)] if holder else []

    def lease_pool(self, cluster: Cluster, job: Job) -> tuple[Cluster, list[Job]]:
        """Lease an idle pool to a job: return the cluster's new record, and the last job's with ``Reused``."""
        now = self.clock()
        holder = self.holders.get(cluster.id)
        told = [transitions.set_pool_reused(holder, job.name, transitions.idle_seconds(cluster, now))] if holder else []
        leased = transitions.lease_pool(cluster, job.id, now)
        return replace(leased, had_root_job=leased.had_root_job or starts_in_root(job.spec)), told

    def set_unreachable(self, cluster_id: str, reason: str) -> None:
        """Keep why hosts of a live cluster cannot be reached, "" if they can; announce its pool if that changed."""
        cluster = self.clusters.get(cluster_id)
        if cluster is None or self.unreachable.get(cluster_id, "") == reason:
            return
        self.unreachable[cluster_id] = reason
        self.save(clusters=[cluster])

    def amend_cluster(self, cluster_id: str, *, durable: bool = False, **changes: Any) -> Cluster | None:
        """Change fields of a live cluster and write it; None when it is not live any more."""
        cluster = self.clusters.get(cluster_id)
        if cluster is None:
            return None
        changed = replace(cluster, **changes)
        self.save(clusters=[changed], durable=durable)
        return changed


def _interpreter_of(key: ReuseKey) -> tuple[str, str, str]:
    return key.engine, key.python, key.image.id if key.image else ""

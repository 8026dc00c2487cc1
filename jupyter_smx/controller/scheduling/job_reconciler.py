"""The loop: load, decide, act, save, emit. For each job it does the one step that policy returns.

Clusters are reconciled by the :class:`~jupyter_smx.controller.scheduling.cluster_reconciler.ClusterReconciler`;
events are handled by the :class:`~jupyter_smx.controller.scheduling.job_events.JobEventHandler`.
``finalize`` and ``stage_out`` collect outputs at the end. The only clock is the one in the arguments.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.agent.wire import VERSION
from jupyter_smx.controller.errors import (
    FencedError,
    RecordsError,
    UnexpectedError,
    disk_wait,
    log_and_continue,
    wrap_unexpected,
)
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.controller.scheduling.cluster_reconciler import ClusterReconciler
from jupyter_smx.controller.scheduling.desired_state import DesiredStateSetter
from jupyter_smx.controller.scheduling.dispatch import Dispatcher
from jupyter_smx.controller.scheduling.job_events import JobEventHandler, ReconcilerCallbacks
from jupyter_smx.controller.scheduling.pool_renewal import PoolRenewals
from jupyter_smx.controller.scheduling.preparation import Preparation
from jupyter_smx.controller.scheduling.scheduler import Scheduler
from jupyter_smx.controller.scheduling.task_set import TaskSet
from jupyter_smx.controller.state.job_runtime import JobRuntimes
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.instance import look_up
from jupyter_smx.model.status import REUSE_MESSAGE, TERMINAL_GOALS, DesiredState, SecondaryStatus
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.hosts.job_folders import starts_in_root
from jupyter_smx.policy.lifecycle import keep_alive, launch, spot, transitions
from jupyter_smx.policy.lifecycle.attempts import MAX_PLACEMENTS, next_attempt, not_started_reason
from jupyter_smx.policy.lifecycle.dependencies import NO_DEPENDENCIES
from jupyter_smx.policy.lifecycle.next_step import JobObservation, JobStep, next_job_step
from jupyter_smx.policy.lifecycle.outcome import Outcome, effective_goal, stop_cause
from jupyter_smx.policy.scheduling import placement, reuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.environments.cache import EnvironmentCache
    from jupyter_smx.controller.scheduling.finalize import JobFinalizer
    from jupyter_smx.controller.state.job_runtime import JobRuntime
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.controller.telemetry.log_collector import LogCollector
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class JobReconciler:
    """Brings every job from where it is to where it should be."""

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        log_collector: LogCollector,
        finalizer: JobFinalizer,
        engine_of: Callable[[str], Engine],
        *,
        environments: EnvironmentCache,
        new_id: Callable[[], str],
        user: str,
    ) -> None:
        self.live_state = live_state
        self.runtimes = JobRuntimes()
        self._agents = agents
        self._finalizer = finalizer
        self._tasks = TaskSet()
        callbacks = ReconcilerCallbacks(self.reconcile, self.schedule_waiting_jobs, self.on_fenced)
        self.events = JobEventHandler(
            live_state, agents, log_collector, finalizer, self.runtimes, self._tasks, callbacks
        )
        self.cluster_reconciler = ClusterReconciler(
            live_state, agents, engine_of, self.events, python_of=environments.python_of
        )
        self.renewals = PoolRenewals(live_state, agents, new_id, self.cluster_reconciler.reconcile)
        self.preparation = Preparation(live_state, environments, engine_of, self.events, user)
        self.dispatcher = Dispatcher(live_state, agents, engine_of, self.runtimes, self.events)
        self.desired_state = DesiredStateSetter(live_state, engine_of, self.reconcile, self._is_ending)
        self.desired_state.on_abandon = self.cluster_reconciler.retry_now
        self._scheduler = Scheduler(live_state, self.preparation, self._reconcile_or_log)
        self.fenced_event = asyncio.Event()
        self._engine_of = engine_of
        self._new_id = new_id
        self._user = user
        self._actions: dict[JobStep, Callable[[Job], None]] = {
            JobStep.WAIT_FOR_DEPENDENCIES: self._mark_blocked,
            JobStep.END_BLOCKED: self._end_by_dependency,
            JobStep.PREPARE: self.preparation.begin,
            JobStep.PLACE: self._place,
            JobStep.STOP_BEFORE_START: self._stop_unstarted,
            JobStep.PROVIDE_FILES: self._provide_files,
            JobStep.DISPATCH: self._dispatch,
            JobStep.SEND_STOP: self._send_stop,
            JobStep.DRAIN: self._drain,
            JobStep.FINALIZE: self._finalize,
            JobStep.RESET_PLACEMENT: self._reset_placement,
            JobStep.FINALIZE_LOST: self._finalize,
        }

    # What the outside asks

    def admit(self, job: Job) -> Job:
        """Take a new job in: refuse it, or write it down and do its first step at once.

        On a warm pool the run frame is in the agent's socket when this returns.

        :raises ValidationError, ResourceLimitError: nothing was written.
        """
        self.live_state.detect_clock_change()
        self._scheduler.on_submission()
        limits = self.live_state.limits
        if len(self.live_state.jobs) >= limits.max_jobs_queued:
            raise checks.queue_full_error(limits)
        progress = JobObservation(prepared=self.preparation.is_over(job))
        self._actions[next_job_step(job, None, progress, self.live_state.job_queue.dependency_status(job))](job)
        return self.live_state.jobs.get(job.id) or self.live_state.job(job.id)

    def placement_of(self, job: Job) -> placement.Placement:
        """Return policy's placement of a job now; changes nothing."""
        spec, limits = job.spec, self.live_state.limits_of(job.spec.engine)
        engine = self._engine_of(spec.engine)
        capabilities = engine.capabilities
        mine, others = engine_capabilities.split_by_engine(
            self._engine_of, self.live_state.clusters.values(), spec.engine
        )
        world = placement.PlacementSnapshot(
            clusters=mine,
            others=others,
            reachable=self.cluster_reconciler.reachable_clusters(),
            foreign=self.cluster_reconciler.incompatible_clusters(),
            version=VERSION,
            ahead=self.live_state.job_queue.ahead_of(job),
            running=sum(bool(other.cluster) for other in self.live_state.jobs.values())
            if limits.max_jobs_running
            else 0,
            bounded=capabilities.bounded_by_machine,
            slots=engine.slots(),
            own_gpus=capabilities.own_gpus,
        )
        key = reuse.key_of_job(job, self._user)
        decision = placement.place(spec, key, world, limits, self.live_state.clock())
        return placement.add_note(placement.add_note(decision, self.preparation.note(job)), spot.note(job))

    # The loop

    async def start(self) -> None:
        """Continue after an earlier controller: first find out what became of jobs whose hosts are gone."""
        self.live_state.detect_clock_change()
        for job in [*self.live_state.jobs.values()]:
            # One whose remains cannot be read keeps no other from its turn.
            with (
                log_and_continue(_log, "job={} reading its results failed", job.name),
                wrap_unexpected(_log, f"Reconciling {job.name}"),
            ):
                if (lost := self._lost_cluster(job)) is not None:
                    await self.events.on_cluster_lost(lost)
        self.tick()
        self.cluster_reconciler.platform_usage.resume()

    def reconcile(self, job_id: str) -> None:
        """Reconcile one job: get the next step from policy, and do it."""
        job = self.live_state.jobs.get(job_id)
        if job is None:
            self.runtimes.drop(job_id)
            self.preparation.drop(job_id)
            return
        runtime = self.runtimes.get(job)
        if runtime.is_finalizing or runtime.is_reading_spool or self.live_state.monotonic() < runtime.not_before:
            return
        if runtime.first_line_moments is not None:
            self.events.record_first_line(job, runtime.first_line_moments)
            job = self.live_state.jobs[job_id]
        if (lost := self._lost_cluster(job)) is not None and not runtime.hosts_lost:
            self._tasks.start(self.events.process_loss(job, lost), f"lost {job.id}")
            return
        # A lost cluster has left the live state, but the job still needs its result there.
        on_hosts = self.live_state.cluster_of(job) or lost
        if job.cluster and on_hosts is None:
            return
        if job.cluster in self.cluster_reconciler.incompatible_clusters():
            job = self._remark_version_mismatch(job)
        connected = bool(job.cluster) and self._agents.is_open(job.cluster)
        order = self.live_state.job_queue.dependency_status(job) if on_hosts is None else NO_DEPENDENCIES
        prepared = bool(job.cluster) or self.preparation.is_over(job)
        progress = runtime.observation(
            connected=connected, prepared=prepared, sees_here=self.dispatcher.has_full_visibility(job)
        )
        act = self._actions.get(next_job_step(job, on_hosts, progress, order))
        if act is not None:
            act(job)

    def tick(self) -> None:
        """Reconcile everything once: clusters first, then jobs with hosts or a stop request, then the queue."""
        self.live_state.retry_disk()
        self.live_state.detect_clock_change()
        self.cluster_reconciler.reconcile_all()
        self.renewals.check_all()
        self.desired_state.enforce_all()
        for job in [*self.live_state.jobs.values()]:
            if job.cluster or job.goal in TERMINAL_GOALS:
                self._reconcile_or_log(job)
        self.preparation.tick()
        self.schedule_waiting_jobs()

    def _reconcile_or_log(self, job: Job) -> None:
        with log_and_continue(_log, "job={} reconcile failed", job.name):
            try:
                with wrap_unexpected(_log, f"Reconciling {job.name}"):
                    self.reconcile(job.id)
            except UnexpectedError:
                self.runtimes.get(job).record_error(self.live_state.monotonic())
                raise

    def schedule_waiting_jobs(self) -> None:
        """Update the jobs that wait for others, then schedule the queue until a job has to stay in it."""
        self._scheduler.reconcile_blocked()
        for pool in keep_alive.unneeded_pools(
            self.live_state.clusters.values(), self.live_state.job_queue.has_queued_tasks
        ):
            self.live_state.release_pool(pool, "Every task of its array has started.")
            self.cluster_reconciler.reconcile(pool.id)
        self._scheduler.schedule()

    def _lost_cluster(self, job: Job) -> Cluster | None:
        """Return a live job's cluster that ended or is being released, if the job's record does not show that yet."""
        live = self.live_state.cluster_of(job)
        if live is None:
            return self.live_state.store.cluster(job.cluster) if job.cluster else None
        return live if live.state is ClusterState.RELEASING else None

    def _is_ending(self, job: Job) -> bool:
        runtime = self.runtimes.find(job.id)
        return runtime is not None and (runtime.is_finalizing or runtime.hosts_lost or runtime.has_ended())

    def on_fenced(self) -> None:
        """Set ``fenced_event``, which ends this process: another controller owns the records."""
        self.fenced_event.set()

    # The steps of a job

    def _mark_blocked(self, job: Job) -> None:
        why = Why(start="queued", sentence=self.live_state.job_queue.dependency_status(job).sentence())
        if job.id not in self.live_state.jobs or job.why != why:
            self.live_state.save(jobs=[replace(job, why=why)])

    def _end_by_dependency(self, job: Job) -> None:
        order = self.live_state.job_queue.dependency_status(job)
        if order.verdict is SecondaryStatus.STOPPED:
            self._finalizer.stop_unstarted(job, order.reason)
        else:
            self._finalizer.fail_unstarted([job], order.reason)
        self.preparation.drop(job.id)
        self.runtimes.drop(job.id)

    def _place(self, job: Job) -> None:
        try:
            known = self.live_state.limits_of(job.spec.engine).catalogue
            for group in job.spec.instance_groups:
                look_up(group, known)
        except ValidationError as error:
            # The administrator took it out of the configuration while the job waited.
            self._finalizer.fail_unstarted([job], f"ClientError: {error}")
            self.runtimes.drop(job.id)
            return
        decision = self.placement_of(job)
        if isinstance(decision, placement.Wait):
            self._wait(job, decision)
            return
        if isinstance(decision, placement.Launch) and not self._may_launch(job):
            return
        self.preparation.mark_used(job)
        if isinstance(decision, placement.Reuse):
            self._take(job, decision)
        elif isinstance(decision, placement.Join):
            self._join(job, decision)
        else:
            self._launch(job, decision)

    def _may_launch(self, job: Job) -> bool:
        """Return True if an engine that had no room for a job is due for another request; pools are used meanwhile."""
        runtime = self.runtimes.find(job.id)
        return runtime is None or self.live_state.monotonic() >= runtime.no_launch_before

    def _take(self, job: Job, decision: placement.Reuse) -> None:
        now = self.live_state.clock()
        taken, told = self.live_state.lease_pool(decision.cluster, job)
        taken = replace(taken, gpus=decision.gpus)
        leased = transitions.advance(
            replace(
                job,
                cluster=taken.id,
                lease=taken.lease,
                why=placement.add_queue_time(decision.why, job, now),
                warm_pool=transitions.pool_in_use(),
            ),
            SecondaryStatus.STARTING,
            now,
            REUSE_MESSAGE,
        )
        self.live_state.save(jobs=[leased, *told], clusters=[taken])
        runtime = self.runtimes.get(leased)
        runtime.moments["committed"] = self.live_state.clock()
        runtime.mark_placed()
        self.reconcile(job.id)

    def _join(self, job: Job, decision: placement.Join) -> None:
        now = self.live_state.clock()
        joined = transitions.join_launch(decision.cluster, job.id, now)
        joined = replace(joined, had_root_job=starts_in_root(job.spec))
        why = placement.add_queue_time(decision.why, job, now)
        started = transitions.advance(
            replace(job, cluster=joined.id, lease=joined.lease, why=why), SecondaryStatus.STARTING, now
        )
        if joined.waiting is not None:
            started = launch.record_wait(started, joined.key.engine, joined.waiting, now)
        self.live_state.save(jobs=[started], clusters=[joined], durable=True)
        self.runtimes.get(started).mark_placed()

    def _launch(self, job: Job, decision: placement.Launch) -> None:
        now = self.live_state.clock()
        fresh = Cluster(id=self._new_id(), key=reuse.key_of_job(job, self._user), created_at=now)
        cluster = transitions.lease_pool(fresh, job.id, now)
        cluster = replace(
            cluster,
            state=ClusterState.PROVISIONING,
            gpus=decision.gpus,
            had_root_job=starts_in_root(job.spec),
        )
        why = replace(placement.add_queue_time(decision.why, job, now), pool=cluster.name())
        started = transitions.advance(
            replace(job, cluster=cluster.id, lease=cluster.lease, why=why), SecondaryStatus.STARTING, now
        )
        # The intention to launch is on disk before the launch: a new controller must find it.
        self.live_state.save(jobs=[started], clusters=[cluster], durable=True)
        self.runtimes.get(started).mark_placed()
        self.cluster_reconciler.reconcile(cluster.id)
        self.cluster_reconciler.release_incompatible(decision.outlived)

    def _wait(self, job: Job, decision: placement.Wait) -> None:
        why = placement.add_lost_notes(decision.why, job)
        if job.id not in self.live_state.jobs or job.why != why:
            self.live_state.save(jobs=[replace(job, why=why)])
        for cluster_id in decision.evict:
            self.live_state.release_pool(
                self.live_state.clusters[cluster_id], f"Released early to make room for {job.name}."
            )
            self.cluster_reconciler.reconcile(cluster_id)

    def _provide_files(self, job: Job) -> None:
        runtime = self.runtimes.get(job)
        if job.spec.channels:
            self.events.mark_downloading(job)
        self.dispatcher.provide_files(job, runtime)

    def _dispatch(self, job: Job) -> None:
        self.dispatcher.dispatch(job, self.runtimes.get(job))
        if job.spec.channels or job.spec.checkpoint:
            self.events.mark_downloading(job)

    def _send_stop(self, job: Job) -> None:
        runtime = self.runtimes.get(job)
        runtime.stop_sent = True
        limits = self.live_state.limits
        grace = limits.interruption_grace if job.goal is DesiredState.INTERRUPT else limits.grace
        self._agents.request_stop(job, set(runtime.hosts) - set(runtime.records), grace, stop_cause(job.goal))

    def _drain(self, job: Job) -> None:
        runtime = self.runtimes.get(job)
        due = runtime.hosts_to_drain()
        runtime.drained_hosts.update(due)
        self._agents.request_stop(job, due, self.live_state.limits.grace, "drained")

    def _stop_unstarted(self, job: Job) -> None:
        self._finalizer.stop_unstarted(job)
        self.preparation.drop(job.id)
        self.runtimes.drop(job.id)
        if job.cluster:
            self.cluster_reconciler.reconcile(job.cluster)
        self.schedule_waiting_jobs()

    def _finalize(self, job: Job) -> None:
        runtime = self.runtimes.get(job)
        runtime.mark_missing_hosts_failed()
        runtime.is_finalizing, runtime.goal_at_exit = (
            True,
            runtime.goal_at_exit or effective_goal(job, runtime.host_ends()),
        )
        self._tasks.start(self._finalize_and_schedule(job, runtime), f"finish {job.id}")

    async def _finalize_and_schedule(self, job: Job, runtime: JobRuntime) -> None:
        try:
            await self._finalizer.finalize_or_fail(job.id, runtime)
        except FencedError:
            self.on_fenced()
            raise
        except SmxError as error:
            self._remark_delayed(job.id, error)
            return
        finally:
            runtime.is_finalizing = False
            runtime.not_before = max(runtime.not_before, self.live_state.monotonic() + 1.0)
        self.runtimes.drop(job.id)
        self.cluster_reconciler.reconcile(job.cluster)
        self.schedule_waiting_jobs()

    def _remark_version_mismatch(self, job: Job) -> Job:
        told = transitions.remark(
            job, "The job runs with another version of jupyter-smx; its result is read when its hosts end."
        )
        if told is not job:
            self.live_state.save(jobs=[told])
        return told

    def _remark_delayed(self, job_id: str, error: SmxError) -> None:
        job = self.live_state.jobs[job_id]
        # Lists show it, so it names no path.
        what = disk_wait(error)
        waits = transitions.remark(job, f"Finalizing waits {what}." if what else f"Finalizing waits: {error.message}")
        if waits is not job:
            _log.warning("job=%s finalize failed, will be retried: %s", job.name, error)
            with suppress(RecordsError):
                self.live_state.save(jobs=[waits])

    def _reset_placement(self, job: Job) -> None:
        how = self.runtimes.get(job).loss_reason()
        self.runtimes.drop(job.id)
        again = placement.mark_hosts_lost(job, self.live_state.clock(), how)
        if again.placements > MAX_PLACEMENTS:
            reason = not_started_reason(how)
            lost = Outcome(state=SecondaryStatus.FAILED, reason=reason)
            retried = next_attempt(job, lost, (), self.live_state.clock())
            if retried is None:
                self._finalizer.fail_unstarted([job], reason)
                self.schedule_waiting_jobs()
                return
            again = retried
        self.live_state.save(jobs=[again])
        self.reconcile(job.id)

    def on_stream_closed(self, cluster_id: str) -> None:
        """Reconcile a cluster whose stream broke: reconnect, or find that it is gone."""
        cluster = self.live_state.clusters.get(cluster_id)
        job = self.live_state.jobs.get(cluster.job) if cluster else None
        runtime = self.runtimes.find(job.id) if job else None
        if runtime is not None:
            # The job may not have arrived; the reply to ``hello`` shows that, and a second run request is harmless.
            runtime.dispatched_hosts.clear()
            runtime.stop_sent = False
            runtime.drained_hosts.clear()
        self.cluster_reconciler.reconcile(cluster_id)

    async def settle(self) -> None:
        """Wait until no task is running; for tests and an orderly end."""
        await self._tasks.settle()
        await self.preparation.settle()
        await self.dispatcher.settle()
        await self.cluster_reconciler.settle()

    def close(self) -> None:
        """Stop acting; jobs and hosts live on and a new controller finds them."""
        self._scheduler.close()
        self.cluster_reconciler.close()
        self.preparation.close()
        self.dispatcher.close()
        self._tasks.cancel()

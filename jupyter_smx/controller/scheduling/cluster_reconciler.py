"""Reconciles clusters: does for each one the step that policy names, one action per cluster at a time.

It works with engines and streams. Events that concern a job go to the ``JobEventHandler``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError, RecordsError, log_and_continue, wrap_unexpected
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.controller.scheduling.host_stalls import HostStalls
from jupyter_smx.controller.scheduling.launch_reports import LaunchReports
from jupyter_smx.controller.scheduling.platform_usage import PlatformUsageRecorder
from jupyter_smx.engines.base import ClusterRequest, Engine, HostSpec, Observation, RequirementsError
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError, VersionMismatchError
from jupyter_smx.model.records.cluster import Cluster, ClusterState, Handle, QueueStatus
from jupyter_smx.model.spec.instance import leader_of
from jupyter_smx.model.status import DesiredState
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.hosts.agent_messages import has_no_place, hosts_of
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.policy.hosts.unreachable_timeout import UnreachablePeriod, extend_unreachable
from jupyter_smx.policy.lifecycle import abandonment, keep_alive, launch, renewal, transitions
from jupyter_smx.policy.lifecycle.next_step import ClusterObservation, ClusterStep, next_cluster_step
from jupyter_smx.policy.limits import log_limit_bytes, preload_memory_mib
from jupyter_smx.policy.preload import preload_allowed
from jupyter_smx.policy.scheduling import capacity

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.scheduling.job_events import JobEventHandler
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.model.records.cluster import ReuseKey
    from jupyter_smx.model.spec.job_spec import JobSpec

_log = logging.getLogger(__name__)

FIND_TIMEOUT = 30.0
"""Seconds that an engine may take to find a cluster by its id."""
_RECENT = 5.0
"""Seconds after a failed connection within which hosts are ended without another attempt."""
MAX_BACKOFF = 30.0
"""Seconds between two tries of something that fails, at most."""


@dataclass
class _ClusterRuntime:
    """Facts in memory about one cluster; none is stored."""

    gone: bool = False
    launch: launch.LaunchTimer | None = None
    """From when the limit of its launch counts; None while it has none."""
    launch_attempted: bool = False
    """An engine was asked for its hosts before, maybe by an earlier controller."""
    action: asyncio.Task[None] | None = None
    step: ClusterStep = ClusterStep.NOTHING
    """Current or last step of the action."""
    failures: int = 0
    not_before: float = 0.0
    missed_at: float = -math.inf
    """Time of the last failed connection to its hosts, on a monotonic clock."""
    unreachable: UnreachablePeriod | None = None
    engine_unreachable: UnreachablePeriod | None = None
    """Period in which the engine could not be reached to end its hosts."""
    version_mismatch: str = ""
    """The answer of its agents, if these speak another protocol version."""

    def is_busy(self) -> bool:
        """Return True if an action is running; an action cancelled before its start never reported its end."""
        return self.action is not None and not self.action.done()


class ClusterReconciler:
    """Clusters and what is being done to them."""

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        engine_of: Callable[[str], Engine],
        events: JobEventHandler,
        *,
        python_of: Callable[[ReuseKey], str],
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._engine_of = engine_of
        self._events = events
        self._python_of = python_of
        self._runtimes = {cluster: _ClusterRuntime(launch_attempted=True) for cluster in live_state.clusters}
        self.platform_usage = PlatformUsageRecorder(live_state, engine_of, events.on_fenced)
        self._host_stalls = HostStalls(agents, engine_of, events, live_state.clock)
        self._observed_at: dict[str, float] = {}
        self._observe_tasks: dict[str, asyncio.Task[None]] = {}
        self._actions: dict[ClusterStep, Callable[[Cluster], Coroutine[Any, Any, None]]] = {
            ClusterStep.ACQUIRE: self._acquire,
            ClusterStep.WITHDRAW: self._withdraw,
            ClusterStep.CONNECT: self._connect,
            ClusterStep.HANDLE_LOST: self._handle_lost,
            ClusterStep.TERMINATE_IDLE: self._terminate_idle,
            ClusterStep.RELEASE: self._release,
        }

    def reachable_clusters(self) -> frozenset[str]:
        """Return the ids of clusters of which every host has an open stream."""
        return frozenset(cluster for cluster in self._live_state.clusters if self._agents.is_open(cluster))

    def incompatible_clusters(self) -> frozenset[str]:
        """Return the ids of clusters whose agents speak another protocol, so that no request can be sent to them."""
        return frozenset(cluster for cluster, runtime in self._runtimes.items() if runtime.version_mismatch)

    def reconcile(self, cluster_id: str) -> None:
        """Reconcile one cluster: get the next step from policy, and begin that action."""
        cluster = self._live_state.clusters.get(cluster_id)
        if cluster is None:
            self._runtimes.pop(cluster_id, None)
            return
        runtime = self._runtimes.setdefault(cluster_id, _ClusterRuntime())
        now = self._live_state.monotonic()
        seen = ClusterObservation(
            connected=self._agents.is_open(cluster_id),
            gone=runtime.gone or self._is_unreachable_too_long(cluster, runtime, now),
            busy=runtime.is_busy() or now < runtime.not_before,
            is_withdrawing=runtime.is_busy() and runtime.step is ClusterStep.WITHDRAW,
            unwanted=launch.is_unwanted(cluster, self._live_state.jobs.get(cluster.job), self._live_state.clock()),
        )
        step = next_cluster_step(cluster, seen, self._live_state.clock())
        act = self._actions.get(step)
        if act is not None:
            before, runtime.step = runtime.action, step
            runtime.action = asyncio.create_task(self._run(act, cluster, runtime, before), name=f"cluster {cluster_id}")

    def retry_now(self, cluster_id: str) -> None:
        """Reconcile a cluster again without the delay after a failed action."""
        runtime = self._runtimes.get(cluster_id)
        if runtime is not None:
            runtime.not_before = 0.0
            self.reconcile(cluster_id)

    def _is_unreachable_too_long(self, cluster: Cluster, runtime: _ClusterRuntime, now: float) -> bool:
        if cluster.handle is None or self._agents.is_open(cluster.id):
            runtime.unreachable = None
            return False
        job = self._live_state.jobs.get(cluster.job)
        if runtime.version_mismatch:
            # These hosts are not silent: they end at their own deadline, with the job's record on their disk.
            return job is not None and job.goal is not DesiredState.RUN
        runtime.unreachable = extend_unreachable(runtime.unreachable, job, now)
        return runtime.unreachable.is_expired(now, self._live_state.limits)

    async def _run(
        self,
        act: Callable[[Cluster], Coroutine[Any, Any, None]],
        cluster: Cluster,
        runtime: _ClusterRuntime,
        before: asyncio.Task[None] | None,
    ) -> None:
        try:
            if before is not None:
                # Only a launch that nothing waits for any more is cut short.
                before.cancel()
                await asyncio.wait({before})
            with wrap_unexpected(_log, f"An action for cluster {cluster.id}"):
                await act(cluster)
            runtime.failures = 0
        except FencedError:
            self._events.on_fenced()
            raise
        except SmxError as error:
            runtime.failures += 1
            runtime.not_before = self._live_state.monotonic() + min(MAX_BACKOFF, 0.2 * 2 ** min(runtime.failures, 10))
            _log.warning("cluster=%s action failed: %s", cluster.id, error)
        finally:
            if runtime.action is asyncio.current_task():
                runtime.action = None
        if not runtime.failures:
            self.reconcile(cluster.id)

    def reconcile_all(self) -> None:
        """Reconcile every cluster, and observe every engine that is due."""
        for cluster in [*self._live_state.clusters.values()]:
            with log_and_continue(_log, "cluster={} silence of its hosts was not recorded", cluster.id):
                self._host_stalls.check(cluster)
            self.reconcile(cluster.id)
        now = self._live_state.monotonic()
        for engine in {cluster.key.engine for cluster in self._live_state.clusters.values()}:
            # Do not call a slow engine while a call is pending: commands would pile up on a busy machine.
            if engine not in self._observe_tasks and now - self._observed_at.get(
                engine, -math.inf
            ) >= engine_capabilities.observe_interval_of(self._engine_of, engine):
                self.observe(engine)

    def observe(self, engine: str) -> None:
        """Begin one look at all clusters of an engine."""
        self._observed_at[engine] = self._live_state.monotonic()
        task = self._observe_tasks[engine] = asyncio.create_task(self._observe_engine(engine), name=f"observe {engine}")
        task.add_done_callback(lambda _done: self._observe_tasks.pop(engine))

    async def _observe_engine(self, engine: str) -> None:
        # For hosts that are being launched or released, the engine's own answer is decisive.
        settled = (ClusterState.IN_USE, ClusterState.AVAILABLE)
        mine = [c for c in self._live_state.clusters.values() if c.key.engine == engine and c.state in settled]
        clusters = [cluster for cluster in mine if cluster.handle is not None]
        handles = [cluster.handle for cluster in clusters if cluster.handle is not None]
        found: list[Observation] = []
        with (
            log_and_continue(_log, "engine={} observe failed", engine),
            wrap_unexpected(_log, f"Observing the engine {engine}"),
        ):
            found = await self._engine_of(engine).observe_all(handles)
        for cluster, seen in zip(clusters, found, strict=False):
            if seen is Observation.GONE and cluster.id in self._runtimes:
                self._runtimes[cluster.id].gone = True
                self.reconcile(cluster.id)

    def request(self, cluster_id: str, key_groups: Cluster, spec: JobSpec | None = None) -> ClusterRequest:
        """Build what an engine is asked for a cluster; ``spec`` is the one of its first job, if that is not over."""
        limits = self._live_state.limits_of(key_groups.key.engine)
        groups = key_groups.key.instance_groups
        capabilities = self._engine_of(key_groups.key.engine).capabilities
        environment = key_groups.key.environment if capabilities.builds_environments else None
        leader = leader_of(spec.instance_groups if spec else groups)
        hosts = []
        for host in named_hosts(groups):
            kind = capacity.resolve_instance_type(host.instance_type, limits)
            share = capacity.host_share(kind, limits)
            hosts.append(
                HostSpec(
                    host=host.name,
                    group=host.group,
                    instance_type=host.instance_type,
                    vcpus=int(share.cpus),
                    gpus=share.gpus,
                    memory=int(share.memory_gib * 2**30),
                    devices=key_groups.gpus.get(host.name, ()) if capabilities.own_gpus else (),
                    options={**kind.options, **key_groups.key.engine_options},
                )
            )
        return ClusterRequest(
            cluster=cluster_id,
            hosts=tuple(hosts),
            instance_groups=groups,
            python=key_groups.key.python if environment else self._python_of(key_groups.key),
            requirements=environment.requirements if environment else (),
            requirements_only=environment.only if environment else False,
            image=key_groups.key.image.reference() if key_groups.key.image else "",
            image_settings=key_groups.key.image_settings,
            network_isolation=key_groups.key.network_isolation,
            mounts=key_groups.key.mounts,
            shm_size=key_groups.key.shm_size,
            preload=preload_allowed(self._expected_imports(key_groups, spec), limits.preload_never),
            preload_memory=preload_memory_mib(limits, min(host.memory for host in hosts) / 2**30),
            input_hash_limit=limits.input_hash_limit_mib,
            log_limit=log_limit_bytes(limits),
            # What lies on a disk of this machine is read without an agent.
            keep_uncollected=0.0 if capabilities.shared_folder else limits.keep_uncollected,
            max_run=spec.max_run if spec else 0,
            keep_alive=(spec.keep_alive or 0) if spec else 0,
            renewal_of=key_groups.renewal_of,
            spot=spec.spot if spec else False,
            role=key_groups.key.role,
            options=next(host.options for host in hosts if host.host == leader),
        )

    def _expected_imports(self, cluster: Cluster, spec: JobSpec | None) -> tuple[str, ...]:
        """Return what the first job imports; for hosts that continue a pool, what those of the pool have imported."""
        before = self._live_state.clusters.get(cluster.renewal_of)
        return spec.imports if spec else before.hosts[0].preloaded if before and before.hosts else ()

    def _runtime(self, cluster: Cluster) -> _ClusterRuntime:
        """Return the run-time state of a cluster; an empty one if it has ended meanwhile."""
        return self._runtimes.get(cluster.id) or _ClusterRuntime()

    # The six actions

    async def _acquire(self, cluster: Cluster) -> None:
        engine = self._engine_of(cluster.key.engine)
        runtime = self._runtime(cluster)
        first, runtime.launch_attempted = not runtime.launch_attempted, True
        job = self._live_state.jobs.get(cluster.job)
        request = self.request(cluster.id, cluster, job.spec if job else None)
        runtime.launch = runtime.launch or launch.LaunchTimer(self._live_state.monotonic())
        try:
            if not await self._launch(engine, request):
                return
            greetings = await self._open(self._live_state.clusters[cluster.id])
            greetings = await self._set_first_deadline(cluster.id, greetings)
        except (_LaunchPendingError, FencedError, RecordsError):
            # What was launched is another controller's now, or is found again when there is room to write it down.
            raise
        except RefusedError as error:
            # The error of a repeated launch is about the first one, not about the job: other hosts may work.
            is_about_job = first or launch.is_no_room(error) or isinstance(error, RequirementsError)
            told = error if is_about_job else UnavailableError(str(error), transient=True)
            await self._abandon_launch(cluster, told, launched=not first)
        except SmxError as error:
            await self._abandon_launch(cluster, error)
        else:
            # A launch that an earlier controller began took longer, by an unknown time.
            took = self._live_state.monotonic() - runtime.launch.counted_from if first else None
            hosts = hosts_of(self._live_state.clusters.get(cluster.id, cluster), greetings)
            launched = self._live_state.clusters.get(cluster.id)
            if launched is not None:
                ready = transitions.mark_ready(launched, self._live_state.clock())
                ready = replace(ready, hosts=hosts, cold_start_seconds=took)
                self._live_state.save(clusters=[ready])
                self._events.on_cluster_ready(ready, greetings)

    async def _set_first_deadline(
        self, cluster_id: str, greetings: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Let agents without a job wait as long as the pool is kept that they continue; return their new answers."""
        cluster = self._live_state.clusters[cluster_id]
        if not renewal.is_without_job(cluster) or cluster.expires_at is None:
            return greetings
        seconds = max(1.0, cluster.expires_at - self._live_state.clock())
        for host in greetings:
            await self._agents.stream(cluster_id, host).set_deadline(seconds=seconds)
        return {host: {**said, "deadline": seconds} for host, said in greetings.items()}

    async def _launch(self, engine: Engine, request: ClusterRequest) -> bool:
        """Launch all hosts; return False if that failed and left nothing behind.

        :raises _LaunchPendingError: the outcome is unknown, so the launch continues.
        """
        limit = self._live_state.limits.launch_limit
        try:
            await self._collect_handles(engine, request)
        except asyncio.TimeoutError:
            late = f"The engine {engine.name} did not provide hosts within {format_duration(limit)}."
            await self._look_up_launch(request.cluster, UnavailableError(late, transient=True), is_late=True)
        except UnavailableError as error:
            await self._look_up_launch(request.cluster, error)
        else:
            return True
        return False

    async def _look_up_launch(self, cluster_id: str, error: UnavailableError, *, is_late: bool = False) -> None:
        """Conclude a launch whose outcome is unknown, or raise that it continues."""
        found = await self._is_launched(self._live_state.clusters[cluster_id])
        cluster = self._live_state.clusters[cluster_id]
        step = launch.next_launch_step(cluster, found=found, is_late=is_late)
        if step is launch.LaunchStep.CONCLUDE:
            await self._abandon_launch(cluster, error)
            return
        if step is launch.LaunchStep.WAIT:
            self._runtime(cluster).launch = None
            self._record_wait(cluster, QueueStatus(f"{error.message} {error.cure}".strip()))
        raise _LaunchPendingError(error.message, transient=True)

    async def _is_launched(self, cluster: Cluster) -> bool | None:
        """Look up by name if a cluster exists at its engine; None if the engine does not answer."""
        engine = self._engine_of(cluster.key.engine)
        try:
            with wrap_unexpected(_log, f"Looking up a launch of the engine {engine.name}"):
                return await asyncio.wait_for(engine.find(cluster.id), FIND_TIMEOUT) is not None
        except SmxError as away:
            _log.warning("cluster=%s find failed: %s", cluster.id, away)
            return None

    async def _collect_handles(self, engine: Engine, request: ClusterRequest) -> None:
        runtime = self._runtimes.get(request.cluster) or _ClusterRuntime()
        told = LaunchReports(engine, request)
        try:
            while (news := await asyncio.wait_for(told.next(), self._launch_seconds_left(runtime))) is not None:
                before = runtime.launch or launch.LaunchTimer(self._live_state.monotonic())
                runtime.launch = launch.extend_launch(before, news, self._live_state.monotonic())
                if isinstance(news, QueueStatus):
                    self._record_wait(self._live_state.clusters[request.cluster], news)
                else:
                    self._record_handle(self._live_state.clusters[request.cluster], news, before)
        finally:
            await told.close()  # end its work now, and not at garbage collection

    def _launch_seconds_left(self, runtime: _ClusterRuntime) -> float | None:
        limit = self._live_state.limits.launch_limit
        return None if runtime.launch is None else runtime.launch.seconds_left(self._live_state.monotonic(), limit)

    def _record_wait(self, cluster: Cluster, status: QueueStatus) -> None:
        """Save what hosts wait for, on their cluster and on the job."""
        if status == cluster.waiting:
            return
        job, now = self._live_state.jobs.get(cluster.job), self._live_state.clock()
        jobs = [] if job is None else [launch.record_wait(job, cluster.key.engine, status, now)]
        self._live_state.save(jobs=jobs, clusters=[replace(cluster, waiting=status)])

    def _record_handle(self, cluster: Cluster, handle: Handle, before: launch.LaunchTimer) -> None:
        job, now, jobs = self._live_state.jobs.get(cluster.job), self._live_state.clock(), []
        is_over = launch.is_wait_over(before, cluster, handle)
        if job is not None and is_over:
            jobs = [launch.record_wait_over(job, cluster.key.engine, cluster.created_at, now)]
        changed = replace(cluster, handle=handle, waiting=None if is_over else cluster.waiting)
        # On disk before anything more is done: from here on the cluster costs.
        self._live_state.save(jobs=jobs, clusters=[changed], durable=True)

    async def _withdraw(self, cluster: Cluster) -> None:
        words = f"Its job was stopped while it waited at the engine {cluster.key.engine}."
        if renewal.is_without_job(cluster):
            words = renewal.NOT_KEPT
        await self._abandon_launch(cluster, UnavailableError(words, transient=True))

    async def _abandon_launch(self, cluster: Cluster, error: SmxError, *, launched: bool = True) -> None:
        now = self._live_state.clusters.get(cluster.id, cluster)
        if now.handle is not None or launched:
            # What was launched may have no handle yet; its cluster's id finds it.
            now = replace(now, handle=now.handle or Handle(engine=cluster.key.engine, cluster=cluster.id))
            try:
                await self._free(now)
            except UnavailableError as away:
                self._detach_job(now, away)
                self._events.on_cluster_refused(now, away, again=False)
                return
        self._agents.close(cluster.id)
        self._live_state.save_cluster_end(replace(now, waiting=None), str(error))
        self._events.on_cluster_refused(now, error)

    async def _open(self, cluster: Cluster) -> dict[str, dict[str, Any]]:
        if cluster.handle is None:
            raise UnavailableError(f"The engine {cluster.key.engine} returned no handle.", transient=True)
        engine = self._engine_of(cluster.key.engine)
        with wrap_unexpected(_log, f"Connecting to hosts of the engine {engine.name}"):
            return await self._agents.open(engine, cluster.handle, self._live_state.store.epoch)

    async def _connect(self, cluster: Cluster) -> None:
        runtime = self._runtime(cluster)
        if cluster.handle is None:
            runtime.gone = True
            return
        try:
            greetings = await self._open(cluster)
        except SmxError as error:
            runtime.missed_at = self._live_state.monotonic()
            if isinstance(error, VersionMismatchError):
                runtime.version_mismatch = error.message
            seen = await self._engine_of(cluster.key.engine).observe_all([cluster.handle])
            if seen[0] is not Observation.GONE:
                stopped = self._host_stalls.find_stopped(cluster)
                if stopped or (isinstance(error, UnavailableError) and runtime.failures):  # one miss is no news
                    since = self._unreachable_since(runtime.unreachable)
                    self._events.on_cluster_unreachable(cluster, stopped or error, since)
                raise
            runtime.gone = True
            return
        changed = self._live_state.clusters.get(cluster.id)
        if changed is not None and has_no_place(changed.job, greetings):
            self._events.note_greetings(changed, greetings)
            self._live_state.exit_reasons[cluster.id] = "Its hosts' time was over before the controller came back."
            runtime.gone = True
            return
        if changed is not None:
            hosts = hosts_of(changed, greetings)
            if hosts != changed.hosts:
                # Modules that they imported while no controller was connected count as preloaded, too.
                changed = self._live_state.amend_cluster(changed.id, hosts=hosts) or changed
            self._events.on_cluster_ready(changed, greetings)

    async def _handle_lost(self, cluster: Cluster) -> None:
        if await self._is_back(cluster):
            return
        # First everything of it is ended, then its remains are read: nothing can begin in between.
        try:
            await self._free(cluster)
        except UnavailableError as away:
            self._detach_job(self._live_state.clusters[cluster.id], away)
        else:
            said = self._live_state.exit_reasons.pop(cluster.id, "The host was lost.")
            self._save_end(self._live_state.clusters[cluster.id], said)
        await self._events.on_cluster_lost(cluster)
        self._events.on_hosts_freed()

    async def _is_back(self, cluster: Cluster) -> bool:
        """Try once more to reach hosts that their engine does not report as gone, before they are ended."""
        runtime, job = self._runtime(cluster), self._live_state.jobs.get(cluster.job)
        has_just_failed = self._live_state.monotonic() - runtime.missed_at < _RECENT
        if runtime.gone or has_just_failed or (job is not None and job.abandoned):
            return False
        with suppress(UnavailableError, VersionMismatchError):
            await self._connect(cluster)
            return not runtime.gone
        return False

    def _detach_job(self, cluster: Cluster, away: UnavailableError) -> None:
        """Begin to release hosts without their job if their engine is unreachable and the job need not wait for that.

        A job whose code has not begun waits for a while; running code may continue, so its job waits until it is
        abandoned.

        :raises UnavailableError: it has to wait.
        """
        job, runtime, now = self._live_state.jobs.get(cluster.job), self._runtime(cluster), self._live_state.monotonic()
        grace = self._live_state.limits.grace
        given_up = job is not None and abandonment.can_give_up(job, self._live_state.clock(), grace)
        runtime.engine_unreachable = extend_unreachable(runtime.engine_unreachable, job, now)
        is_coming_up = cluster.state is ClusterState.PROVISIONING
        if not (given_up or (is_coming_up and runtime.engine_unreachable.is_expired(now, self._live_state.limits))):
            period = runtime.unreachable or runtime.engine_unreachable
            self._events.on_cluster_unreachable(cluster, away, self._unreachable_since(period))
            raise away
        leaving = transitions.release(cluster, away.message, self._live_state.clock())
        last_job = job.name if job is not None else leaving.last_job
        self._live_state.save(clusters=[replace(leaving, job="", last_job=last_job)], durable=True)

    def _unreachable_since(self, period: UnreachablePeriod | None) -> float:
        """Return the start of a period, in seconds since the epoch; now if there is none."""
        now = self._live_state.monotonic()
        return self._live_state.clock() - (now - (period.since if period else now))

    async def _terminate_idle(self, cluster: Cluster) -> None:
        await self._free(cluster)
        usual = "The allocation of its hosts has ended." if cluster.renewed_by else "The idle host ended unexpectedly."
        said = self._live_state.exit_reasons.pop(cluster.id, usual)
        reason = "The keep-alive expired." if self._is_expired(cluster) else said
        self._save_end(self._live_state.clusters[cluster.id], reason)
        self._events.on_hosts_freed()

    async def _release(self, cluster: Cluster) -> None:
        if not self._is(cluster.id, ClusterState.RELEASING):
            self._live_state.detect_clock_change()
            idle = self._live_state.clusters[cluster.id]
            if not keep_alive.is_expired(idle, self._live_state.clock()):
                return
            # Recorded before the release: of two controllers only the owner of the records ends hosts.
            self._live_state.release_pool(idle, "The keep-alive expired.")
        await self._free(cluster)
        now = self._live_state.clusters[cluster.id]
        reason = now.reason or ("The keep-alive expired." if self._is_expired(now) else "Released.")
        self._save_end(now, reason)
        self._events.on_hosts_freed()

    def _save_end(self, cluster: Cluster, reason: str) -> None:
        self.platform_usage.save_end(cluster, reason)

    async def _free(self, cluster: Cluster) -> None:
        self._live_state.store.check_owner()
        self._agents.close(cluster.id)
        if cluster.handle is not None:
            await self._engine_of(cluster.key.engine).release(cluster.handle)

    def release_incompatible(self, clusters: Iterable[str]) -> None:
        """Release idle pools that no job can take any more, because all that is new is of another version."""
        for cluster_id in clusters:
            idle = self._live_state.clusters.get(cluster_id)
            if idle is not None and idle.state is ClusterState.AVAILABLE:
                self._live_state.release_pool(idle, "Its hosts run another version of jupyter-smx.")
                self.reconcile(cluster_id)

    def _is_expired(self, cluster: Cluster) -> bool:
        # For any state, and a second early: this only explains why hosts are gone already.
        return cluster.expires_at is not None and cluster.expires_at <= self._live_state.clock() + 1.0

    async def drain_releases(self, limit: float) -> None:
        """Finish the releases that were begun, within ``limit`` seconds: released hosts must not cost any more."""
        begin = self._live_state.monotonic()
        await self._wait_for(ClusterState.RELEASING, limit)
        await self.platform_usage.drain(max(0.0, limit - (self._live_state.monotonic() - begin)))

    async def wait_connected(self, limit: float) -> None:
        """Wait until the hosts of idle pools are connected or known to be gone, for at most ``limit`` seconds."""
        await self._wait_for(ClusterState.AVAILABLE, limit)

    async def _wait_for(self, state: ClusterState, limit: float) -> None:
        begun = [
            runtime.action
            for cluster_id, runtime in self._runtimes.items()
            if runtime.action is not None and self._is(cluster_id, state)
        ]
        if begun:
            await asyncio.wait(begun, timeout=limit)

    def _is(self, cluster_id: str, state: ClusterState) -> bool:
        cluster = self._live_state.clusters.get(cluster_id)
        return cluster is not None and cluster.state is state

    async def settle(self) -> None:
        """Wait until no action is running; for tests and an orderly end."""
        while tasks := [*self._observe_tasks.values(), *(w.action for w in self._runtimes.values() if w.is_busy())]:
            await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        await self.platform_usage.settle()

    def close(self) -> None:
        """Drop every action; hosts live on and are found again."""
        for task in [*self._observe_tasks.values(), *(runtime.action for runtime in self._runtimes.values())]:
            if task is not None:
                task.cancel()
        self.platform_usage.close()


class _LaunchPendingError(UnavailableError):
    """The outcome of a launch is unknown: the engine did not report it, and is called again."""

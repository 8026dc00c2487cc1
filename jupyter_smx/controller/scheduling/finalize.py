"""Finalize a job: collect outputs, then record its outcome and the fate of its hosts in one transaction."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.controller.errors import RecordsError, UnexpectedError, is_disk_outage, wrap_unexpected
from jupyter_smx.controller.telemetry.log_metrics import LogMetrics
from jupyter_smx.controller.transfer import host_spool, stage_out
from jupyter_smx.controller.transfer.host_spool import PIECE, HostSpool
from jupyter_smx.controller.transfer.stage_out import HostOutputs
from jupyter_smx.model.errors import RefusedError, ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.records.lost_variables import completed_message
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.accounting.usage import sum_usage, usage_of
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.provenance import provenance_of
from jupyter_smx.policy.lifecycle import abandonment, attempts, keep_alive, transitions
from jupyter_smx.policy.lifecycle.keep_alive import KeepDecision
from jupyter_smx.policy.lifecycle.outcome import Outcome, exit_message, job_outcome, was_taken_away
from jupyter_smx.policy.preload import PICKLER, note_missing_preloads, preload_candidates, preload_costs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.controller.state.job_runtime import JobRuntime
    from jupyter_smx.controller.state.live_state import LiveState
    from jupyter_smx.controller.telemetry.log_collector import LogCollector
    from jupyter_smx.controller.transfer.stage_out import OutputStager
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.records.job import HostEnd, Job
    from jupyter_smx.model.results.provenance import Provenance
    from jupyter_smx.model.results.reports import Why
    from jupyter_smx.model.spec.channel import Artifact
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import JobSpec

_log = logging.getLogger(__name__)

MAX_UNEXPECTED_ERRORS = 5
"""Unexpected errors while a job is finalized, after which it counts as an infrastructure failure."""
FORGET_DELAY = 0.05
"""Seconds until hosts delete finished jobs, because results and new jobs come first."""
_CLOSED = KeepDecision(0, "Its hosts take no more jobs, because their time is over.")
_UNHEALTHY = KeepDecision(0, "Its hosts may be unhealthy.")
_INTERRUPTED = KeepDecision(0, "A spot interruption reclaimed its hosts.")
_NOT_LAUNCHED = KeepDecision(0, "No hosts were launched.")


CollectSamples: TypeAlias = "Callable[[Job, str, int, AgentStream | None, HostSpool | None], Awaitable[None]]"


async def _collect_no_samples(*_what: object) -> None:
    return None


async def _no_log_metrics(_job: Job) -> LogMetrics:
    return LogMetrics()


async def _no_cure(_spec: JobSpec, _ends: Sequence[HostEnd], _hosts: Iterable[Host], _image: Image | None) -> str:
    return ""


class JobFinalizer:
    """Computes outcomes; ``read_metrics`` reads the last metrics of a job after its log was collected.

    ``find_cure`` returns the cure of a failed job.
    """

    def __init__(
        self,
        live_state: LiveState,
        agents: Agents,
        log_collector: LogCollector,
        output_stager: OutputStager,
        engine_of: Callable[[str], Engine],
        *,
        read_metrics: Callable[[Job], Awaitable[LogMetrics]] = _no_log_metrics,
        find_cure: Callable[[JobSpec, Sequence[HostEnd], Iterable[Host], Image | None], Awaitable[str]] = _no_cure,
    ) -> None:
        self._live_state = live_state
        self._agents = agents
        self._log_collector = log_collector
        self._output_stager = output_stager
        self._engine_of = engine_of
        self._read_metrics = read_metrics
        self._find_cure = find_cure
        self._preload_requested: dict[str, set[str]] = {}
        self._pending_forgets: list[tuple[str, str, str, int]] = []
        """Jobs that hosts may forget: cluster, host, job, lease. A new controller sends them after ``hello``."""
        self._forget_timer: asyncio.TimerHandle | None = None
        # Brings home what a job used of a host; its size there, and where it is.
        self.collect_samples: CollectSamples = _collect_no_samples
        # Called with each job that ran, when its outcome and its provenance are recorded.
        self.on_outcome: Callable[[Job], None] = lambda _job: None

    async def finalize(self, job_id: str, runtime: JobRuntime) -> None:
        """Collect the outputs and record the outcome.

        :raises UnavailableError: a host that still has outputs does not answer; try again.
        :raises StagingError: the disk here is full or fails; try again, nothing is lost.
        """
        self._live_state.detect_clock_change()
        job = self._live_state.jobs[job_id]
        if not runtime.is_release_pending and await self._start_next_attempt(job, runtime):
            return
        self._begin_uploading(job, runtime)
        job = self._live_state.jobs[job_id]  # a user may have stopped it meanwhile
        home, trouble = await self._stage_out(job, runtime)
        told = await self._read_metrics(job)
        cure = await self._cure(job, runtime, trouble)
        self._live_state.detect_clock_change()
        now = self._live_state.clock()
        job = self._with_final_why(_uploading(self._live_state.jobs[job_id], runtime, now), runtime)
        ends = runtime.host_ends()
        judged = trouble or attempts.final_outcome(job_outcome(_goal_at_exit(job, runtime), ends))
        times = (item for record in runtime.records.values() for item in record.get("at", {}).items())
        at = {name: moment for name, moment in times if moment is not None}  # a job that was refused never ran
        over = replace(
            job,
            hosts=ends,
            artifacts=home,
            failure_reason=judged.reason,
            failure_message=judged.message if judged.message != judged.reason else "",
            failure_cure=cure if judged.state is SecondaryStatus.FAILED else "",
            exit_message=exit_message(ends),
            progress=told.progress,
            metrics=told.latest,
            pace=told.pace,
            metric_notes=told.notes,
            provenance=self._provenance(job, runtime),
            peak=sum_usage(usage_of(record.get("usage", {})) for record in runtime.records.values()),
            received=_received(runtime),
            started_at=job.started_at or at.get("received"),
            timings={**at, **job.timings, **runtime.moments, "final": now},
        )
        remark = _final_message(over, judged, runtime) or (abandonment.STOPPED if runtime.is_release_pending else "")
        finished = transitions.advance(over, judged.state, now, remark)
        has_other_deadline = self._has_other_deadline(job, runtime)
        self._write(finished, _reason_to_release(runtime, judged), idle_from=_idle_from(finished, at, now))
        if has_other_deadline:
            self._send_deadline(job)
        if trouble is None:
            self._schedule_forget(job, runtime)
        self._request_preload(job, runtime)
        self.on_outcome(finished)

    async def _cure(self, job: Job, runtime: JobRuntime, trouble: Outcome | None) -> str:
        ends = runtime.host_ends()
        if trouble is not None or job_outcome(job.goal, ends).state is not SecondaryStatus.FAILED:
            return ""
        return await self._find_cure(job.spec, ends, self._hosts(job), job.image)

    def _with_final_why(self, job: Job, runtime: JobRuntime) -> Job:
        missing_preloads = [record.get("missing_preloads", {}) for record in runtime.records.values()]
        return replace(job, why=self.corrected_why(job, missing_preloads))

    def corrected_why(self, job: Job, missing_preloads: Sequence[Mapping[str, Any]]) -> Why | None:
        """Return the reason of a job's start, corrected by the preloads that its hosts report as missing."""
        if job.why is None or not any(missing_preloads):
            return job.why
        cluster = self._live_state.clusters.get(job.cluster)
        host = cluster.hosts[0] if cluster is not None and cluster.hosts else None
        return note_missing_preloads(job.why, job.spec.imports, host, missing_preloads)

    def _provenance(self, job: Job, runtime: JobRuntime) -> Provenance:
        return provenance_of(job, self._hosts(job), runtime.records)

    def _hosts(self, job: Job) -> tuple[Host, ...]:
        cluster = self._live_state.clusters.get(job.cluster) or self._live_state.store.cluster(job.cluster)
        return cluster.hosts if cluster else ()

    async def _start_next_attempt(self, job: Job, runtime: JobRuntime) -> bool:
        """Start the next attempt of a job that failed by our fault or was interrupted; store its log separately.

        Return False if there is no next attempt.
        """
        await self._explain_ends(job, runtime)
        ends, now = runtime.host_ends(), self._live_state.clock()
        job = self._mark_interrupted(self._live_state.jobs[job.id], runtime, ends)
        judged = job_outcome(job.goal, ends)
        if attempts.next_attempt(job, judged, ends, now) is None:
            return False
        await self._collect_logs_or_give_up(job, runtime)
        # A user may have stopped it meanwhile, or changed the clock.
        self._live_state.detect_clock_change()
        now = self._live_state.clock()
        again = attempts.next_attempt(self._live_state.jobs[job.id], judged, ends, now)
        if again is None:
            return False
        cluster = self._live_state.clusters.get(job.cluster)
        keep = _INTERRUPTED if again.attempts[-1].interrupted else _UNHEALTHY
        left = [] if cluster is None else [transitions.detach_job(cluster, job.name, keep, now)]
        self._live_state.save(jobs=[again], clusters=left)
        return True

    async def _explain_ends(self, job: Job, runtime: JobRuntime) -> None:
        """Get the reason from the engine, if the records of hosts show that it took machines away."""
        if job.goal is not DesiredState.RUN:
            return
        for host, record in runtime.records.items():
            if record.get("cause") == "interrupted" and host not in runtime.exit_reasons:
                runtime.exit_reasons[host] = await self.host_exit_reason(job, host)

    def _mark_interrupted(self, job: Job, runtime: JobRuntime, ends: Sequence[HostEnd]) -> Job:
        """Record that a spot job lost its machine, unless the notice of its host came before."""
        if not (job.spec.spot and was_taken_away(job.goal, ends)):
            return job
        told = transitions.interrupt(job, self._live_state.clock())
        runtime.goal_at_exit = told.goal
        self._live_state.save(jobs=[told])
        return told

    async def _collect_logs_or_give_up(self, job: Job, runtime: JobRuntime) -> None:
        """Collect logs and samples; if a disk refuses them for too long, another attempt may begin without them."""
        try:
            await self._collect_logs(job, runtime)
        except SmxError as error:
            if runtime.can_wait_for_disk(error, self._live_state.monotonic()):
                raise
            _log.warning("job=%s log is incomplete: %s", job.name, error)

    async def _collect_logs(self, job: Job, runtime: JobRuntime) -> None:
        """Collect logs and samples in parallel: each is a round trip to a host that may be far away."""
        brought: list[Awaitable[None]] = []
        for host in runtime.hosts:
            spool = HostSpool() if runtime.is_spool_given_up else self._spool(job, host)
            stream = None if runtime.hosts_lost else self._agents.stream(job.cluster, host)
            record = runtime.records.get(host, {})
            brought.append(self._log_collector.drain(job, host, int(record.get("log", 0)), stream, spool))
            brought.append(self.collect_samples(job, host, int(record.get("samples", 0)), stream, spool))
        ends = await asyncio.gather(*brought, return_exceptions=True)  # none of them is left behind
        for error in ends:
            if error is not None:
                raise error

    def _begin_uploading(self, job: Job, runtime: JobRuntime) -> None:
        """Begin the step that brings outputs home, if there are any; record it now if it takes a while."""
        if not any(record.get("artifacts") for record in runtime.records.values()):
            return
        if runtime.uploading_since is None:
            runtime.uploading_since = self._live_state.clock()
        if not self._has_small_local_result(job, runtime):
            self._save_uploading(job, runtime)

    def _save_uploading(self, job: Job, runtime: JobRuntime) -> None:
        before = self._live_state.jobs[job.id]
        uploading = _uploading(before, runtime, self._live_state.clock())
        if uploading is not before:
            self._live_state.save(jobs=[uploading])

    def _has_small_local_result(self, job: Job, runtime: JobRuntime) -> bool:
        """Return True if the outputs are home sooner than a record of that step; the verdict has it then."""
        outputs = [HostOutputs(host, record, None, self._spool(job, host)) for host, record in runtime.records.items()]
        return self._output_stager.is_small_local_result(outputs)

    async def _stage_out(self, job: Job, runtime: JobRuntime) -> tuple[tuple[Artifact, ...], Outcome | None]:
        everything = []
        try:
            await self._collect_logs(job, runtime)
            for host, record in runtime.records.items():
                stream = None if runtime.hosts_lost else self._agents.stream(job.cluster, host)
                everything.append(HostOutputs(host, record, stream, self._spool(job, host)))
            home = await self._output_stager.stage_out(job, everything)
        except SmxError as error:
            may_pass = error.transient or isinstance(error, UnavailableError)
            if may_pass and runtime.can_wait_for_disk(error, self._live_state.monotonic()):
                with suppress(RecordsError):  # their disk may be the one that is full
                    self._save_uploading(job, runtime)
                raise
            whose = attempts.INTERNAL_ERROR if is_disk_outage(error) else "ClientError"
            said = f"{whose}: The outputs could not be collected: {error}"
            return (), Outcome(state=SecondaryStatus.FAILED, reason=said[:1024])
        return home, None

    def _spool(self, job: Job, host: str) -> HostSpool:
        engine = self._engine_of(job.spec.engine)
        folder = engine.spool_path(job.cluster, host)
        read = partial(engine.read_spool, job.cluster, host, job.id)
        return HostSpool(None if folder is None else folder / job.id, read)

    def _write(self, job: Job, keep: KeepDecision | None, *, idle_from: float) -> None:
        """Save a verdict and what becomes of the hosts: ``keep``, or what policy decides where that is None."""
        cluster = self._live_state.clusters.get(job.cluster)
        if cluster is None or cluster.state is ClusterState.RELEASING:
            lost = transitions.pool_of_job(KeepDecision(0, "The host was lost."))
            ended = cluster or self._live_state.store.cluster(job.cluster)
            usage = ended.platform_usage if ended is not None else None  # read before this job was final
            self._live_state.save(jobs=[replace(job, warm_pool=replace(lost, platform_usage=usage))])
            return
        # It may have been set while the outputs were collected.
        job = replace(job, keep_alive=self._live_state.jobs.get(job.id, job).keep_alive)
        seconds = keep_alive.keep_alive_after(job.wanted_keep_alive(), cluster)
        if keep is None:
            itself = (cluster.id, cluster.renewed_by)  # of the two that are one pool, one is kept
            others = [other for other in self._live_state.clusters.values() if other.id not in itself]
            limits = self._live_state.limits
            cluster = replace(cluster, keep_alive=seconds)
            keep = keep_alive.decide_after_job(cluster, seconds, others, limits, idle_from)
            waits = job.spec.array is not None and self._live_state.job_queue.has_queued_tasks(job.spec.array.id)
            left = keep_alive.remaining_seconds(cluster, limits, idle_from)
            keep = keep_alive.decide_after_task(job, keep, left, others_wait=waits)
        job = replace(job, warm_pool=transitions.pool_of_job(keep))
        given = transitions.detach_job(cluster, job.name, keep, idle_from)
        is_continued = keep.seconds > 0 or (seconds > 0 and keep in (_CLOSED, _INTERRUPTED))
        self._live_state.save(
            jobs=[job], clusters=[given, *([] if is_continued else self._live_state.ended_with(given))]
        )
        if given.state is ClusterState.AVAILABLE:
            self._live_state.holders[cluster.id] = job

    def _schedule_forget(self, job: Job, runtime: JobRuntime) -> None:
        self._pending_forgets += [(job.cluster, host, job.id, job.lease) for host in runtime.hosts]
        if self._forget_timer is None:
            self._forget_timer = asyncio.get_running_loop().call_later(FORGET_DELAY, self._send_forget)

    def _send_forget(self) -> None:
        done_with, self._pending_forgets, self._forget_timer = self._pending_forgets, [], None
        for cluster, host, job, lease in done_with:
            if self._agents.is_open(cluster):
                self._agents.stream(cluster, host).forget(job=job, lease=lease)

    def _request_preload(self, job: Job, runtime: JobRuntime) -> None:
        """Send the imports that the next job likely needs to idle hosts, for preloading."""
        cluster = self._live_state.clusters.get(job.cluster)
        if cluster is None or cluster.state is not ClusterState.AVAILABLE or not self._agents.is_open(cluster.id):
            return
        told = self._preload_requested.setdefault(cluster.id, set())
        never, has_values = self._live_state.limits.preload_never, job.spec.has_values()
        for host in cluster.hosts:
            imported = runtime.records.get(host.name, {}).get("modules", ())
            modules = preload_candidates(job.spec.imports, imported, host, never, has_values=has_values)
            if not told.issuperset(modules):
                # The agent skips modules that came with others; each module is sent to it once.
                self._agents.stream(cluster.id, host.name).preload(modules=list(modules))
        told.update(*(record.get("modules", ()) for record in runtime.records.values()), job.spec.imports)
        told.update([PICKLER] if has_values else [])
        self._preload_requested = {
            live: names for live, names in self._preload_requested.items() if live in self._live_state.clusters
        }

    def stop_unstarted(self, job: Job, reason: str = "Stopped before the code started.") -> None:
        """End a job whose code never ran; hosts that were launched for it are kept as after any stop."""
        now = self._live_state.clock()
        if job.cluster:
            stopped = transitions.stop_before_start(job, reason, now)
            self._write(stopped, None, idle_from=now)
            self._send_deadline(job)
        else:
            stopped = transitions.stop_without_hosts(job, reason, now)
            self._live_state.save(jobs=[stopped])
        self.on_outcome(stopped)

    async def finalize_or_fail(self, job_id: str, runtime: JobRuntime) -> None:
        """Collect the outputs and record the outcome; after repeated unexpected errors, fail the job by our fault.

        :raises UnexpectedError: it failed; try again.
        :raises SmxError: as :meth:`finalize`.
        """
        try:
            with wrap_unexpected(_log, f"Finalizing {self._live_state.jobs[job_id].name}"):
                await self.finalize(job_id, runtime)
        except UnexpectedError as error:
            if job_id not in self._live_state.jobs:
                return  # the outcome is recorded, and the error came after that
            if runtime.record_error(self._live_state.monotonic()) < MAX_UNEXPECTED_ERRORS:
                raise
            self._fail_unexpected(job_id, error)

    def _fail_unexpected(self, job_id: str, error: SmxError) -> None:
        job, now = self._live_state.jobs[job_id], self._live_state.clock()
        reason = f"{attempts.INTERNAL_ERROR}: {error}"[:1024]
        told = replace(job, failure_reason=reason, timings={**job.timings, "final": now})
        failed = transitions.advance(told, SecondaryStatus.FAILED, now, reason)
        self._write(failed, _UNHEALTHY, idle_from=now)
        self.on_outcome(failed)

    def _has_other_deadline(self, job: Job, runtime: JobRuntime) -> bool:
        """Return True if agents must be sent their deadline after a job.

        They have the keep-alive of the request, and a host that was done before the others has waited for them.
        """
        return len(runtime.hosts) > 1 or self._live_state.jobs.get(job.id, job).keep_alive is not None

    def _send_deadline(self, job: Job) -> None:
        cluster = self._live_state.clusters.get(job.cluster)
        if cluster is None or cluster.expires_at is None or not self._agents.is_open(cluster.id):
            return
        for host in cluster.hosts:
            stream = self._agents.stream(cluster.id, host.name)
            stream.set_deadline(seconds=cluster.expires_at - self._live_state.clock())

    def fail_unstarted(self, jobs: Sequence[Job], reason: str) -> None:
        """End jobs for which no hosts could be had."""
        now = self._live_state.clock()
        failed = [_failed_unstarted(job, reason, now) for job in jobs]
        self._live_state.save(jobs=failed)
        for job in failed:
            self.on_outcome(job)

    async def fetch_record(self, job: Job, host: str) -> dict[str, Any]:
        """Read the end record of a job from the agent that has it.

        :raises UnavailableError: the agent does not answer.
        """
        stream = self._agents.stream(job.cluster, host)
        ask = partial(stream.request, "read", job=job.id, lease=job.lease, name=host_layout.END_RECORD, limit=PIECE)
        try:
            reply, first = await ask(offset=0)
        except ResourceNotFoundError:
            return agent_messages.unreadable_record("it does not exist")
        total, payload = agent_messages.parse_count(reply.get("total")), bytearray(first)
        if total > host_spool.LONGEST_RECORD:
            return agent_messages.unreadable_record(f"it has {total} bytes; the limit is {host_spool.LONGEST_RECORD}")
        # The record names every file of every output, so it may be longer than one frame.
        while len(payload) < total:
            _, piece = await ask(offset=len(payload))
            if not piece:
                raise UnavailableError(f"The record of {job.name} on {host} cannot be read further.", transient=True)
            payload += piece
        return await asyncio.to_thread(stage_out.parse_record, payload) or agent_messages.parse_record(None)

    async def host_exit_reason(self, job: Job, host: str) -> str:
        """Return the engine's reason for the end of a host; "" if it has none, or does not say it now."""
        with suppress(UnavailableError, RefusedError):
            return await self._engine_of(job.spec.engine).exit_reason(job.cluster, host)
        return ""

    async def read_spool(self, job: Job, host: str) -> tuple[bool, dict[str, Any] | None]:
        """Return whether the code may have begun on a host that is gone, and its record if it left one.

        :raises UnavailableError: the engine cannot read it now.
        """
        spool = self._spool(job, host)
        # A log is there from the moment in which a process has the job; before that, inputs are copied.
        absent = await spool.is_absent(host_layout.JOB_LOG)
        return not absent, await stage_out.read_record(spool)

    def adopt_deadline(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Use the agents' deadline if it is earlier than the pool's recorded one: they end by their own clock."""
        left = [said["deadline"] for said in greetings.values() if said.get("deadline") is not None]
        if left and cluster.expires_at is not None:
            expires = self._live_state.clock() + min(left)
            # Never longer than was promised: an agent waits a little for us even where no keep-alive was asked for.
            if expires < cluster.expires_at - 1.0:
                self._live_state.amend_cluster(cluster.id, expires_at=expires)

    def save_preloaded(self, cluster_id: str, host: str, said: Mapping[str, Any]) -> None:
        """Write down what a host has imported for the jobs to come, and what it could not."""
        cluster = self._live_state.clusters.get(cluster_id)
        if cluster is None:
            return
        hosts = tuple(
            replace(
                h,
                preloaded=tuple(said.get("loaded", ())),
                preload_failures=dict(said.get("failed", {})),
                preload_costs=preload_costs(said),
            )
            if h.name == host
            else h
            for h in cluster.hosts
        )
        self._live_state.amend_cluster(cluster_id, hosts=hosts)


def _received(runtime: JobRuntime) -> dict[str, int]:
    """Return the bytes of the variables that hosts stored, by name."""
    return {name: size for record in runtime.records.values() for name, size in record.get("received", {}).items()}


def _final_message(job: Job, judged: Outcome, runtime: JobRuntime) -> str:
    """Return the message of an end: why a job failed, or what a completed job lost; else ""."""
    if judged.state is SecondaryStatus.COMPLETED:
        return completed_message(job.spec.receive, _received(runtime), runtime.host_ends())
    return job.failure_text()


def _reason_to_release(runtime: JobRuntime, judged: Outcome) -> KeepDecision | None:
    """Return why hosts cannot be kept; None if policy decides about them."""
    if runtime.hosts_closed:
        return _CLOSED
    return None if judged.healthy else _UNHEALTHY


def _idle_from(job: Job, at: Mapping[str, float], now: float) -> float:
    """Return since when the hosts of a job are idle: not later than now, and not earlier than its dispatch."""
    ended = min(now, at.get("ended", now))
    return max(ended, min(now, job.timings.get("sent", ended)))


def _uploading(job: Job, runtime: JobRuntime, now: float) -> Job:
    """Move a job to the step that brings its outputs home, if it began; a stop request goes on showing."""
    if runtime.uploading_since is None or job.state is SecondaryStatus.STOPPING:
        return job
    # The clock may have been set back since then.
    return transitions.advance(job, SecondaryStatus.UPLOADING, min(runtime.uploading_since, now))


def _goal_at_exit(job: Job, runtime: JobRuntime) -> DesiredState:
    """Return the goal for the outcome: that at the exit of the code, unless the job was to begin again since then."""
    ends = runtime.host_ends()
    then = replace(job, goal=runtime.goal_at_exit or job.goal)
    again = attempts.next_attempt(then, job_outcome(then.goal, ends), ends, job.modified_at)
    return then.goal if again is None else job.goal


def _failed_unstarted(job: Job, reason: str, now: float) -> Job:
    failed = transitions.advance(replace(job, failure_reason=reason[:1024]), SecondaryStatus.FAILED, now, reason)
    return replace(failed, warm_pool=transitions.pool_of_job(_NOT_LAUNCHED))

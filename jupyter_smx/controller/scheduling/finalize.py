"""The end of a job: outputs home, the verdict, and what becomes of its hosts, in one transaction."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from jupyter_smx.controller.telemetry.log_metrics import Told
from jupyter_smx.controller.transfer import stage_out
from jupyter_smx.controller.transfer.stage_out import Left
from jupyter_smx.controller.unexpected import UnforeseenError, unforeseen
from jupyter_smx.engines.machine import untrusted_files
from jupyter_smx.model.errors import ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.accounting.usage import together, usage_of
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.provenance import provenance_of
from jupyter_smx.policy.lifecycle import keep_alive, retries, transitions
from jupyter_smx.policy.lifecycle.keep_alive import Keep
from jupyter_smx.policy.lifecycle.outcome import Verdict, exit_message, verdict
from jupyter_smx.policy.preload import costs_of, worth_learning
from jupyter_smx.policy.scheduling import array_pools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.controller.state.job_runtime import Trail
    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.controller.telemetry.log_collector import LogPump
    from jupyter_smx.controller.transfer.stage_out import Staging
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.provenance import Provenance
    from jupyter_smx.model.spec.channel import Artifact
    from jupyter_smx.model.status import Goal

_log = logging.getLogger(__name__)

MAX_BROKEN_OFF = 5
"""How often the end of a job may break off for reasons that nobody foresaw, before it has failed by our fault."""
FORGET_LATER = 0.05
"""Seconds until hosts are told which jobs they may forget: whoever waits for a verdict, or for hosts, comes first."""
_UNFIT = Keep(0, "Its hosts may not be healthy.")
_TAKEN = Keep(0, "Its hosts were taken back by a spot interruption.")
_NOT_LAUNCHED = Keep(0, "No hosts were launched.")


KeepSamples: TypeAlias = "Callable[[Job, str, int, AgentStream | None, Path | None], Awaitable[None]]"


async def _no_samples(*_what: object) -> None:
    return None


async def _nothing_told(_job: Job) -> Told:
    return Told()


class Finisher:
    """Gives verdicts; ``measure`` reads the last metrics of a job when its log is here."""

    def __init__(
        self,
        books: Books,
        agents: Agents,
        pump: LogPump,
        home: Staging,
        engine_of: Callable[[str], Engine],
        *,
        measure: Callable[[Job], Awaitable[Told]] = _nothing_told,
    ) -> None:
        self._books = books
        self._agents = agents
        self._pump = pump
        self._staging = home
        self._engine_of = engine_of
        self._measure = measure
        self._taught: dict[str, set[str]] = {}
        self._done_with: list[tuple[str, str, str, int]] = []
        """Jobs that hosts may forget: cluster, host, job, lease. A new controller tells them when they greet."""
        self._telling: asyncio.TimerHandle | None = None
        # Brings home what a job used of a host; its size there, and where it is.
        self.keep_samples: KeepSamples = _no_samples
        # Told of each job that ran, when its verdict and its provenance are in the records.
        self.on_verdict: Callable[[Job], None] = lambda _job: None

    async def finish(self, job_id: str, trail: Trail) -> None:
        """Bring everything home and write the verdict.

        :raises UnavailableError: a host that still has outputs does not answer; try again.
        :raises StagingError: the disk here is full; try again, nothing is lost.
        """
        self._books.heed_the_clock()
        job = self._books.jobs[job_id]
        if await self._begins_again(job, trail):
            return
        if any(record.get("artifacts") for record in trail.records.values()):
            job = self._uploading(self._books.jobs[job_id])  # somebody may have stopped it meanwhile
        home, trouble = await self._bring_home(job, trail)
        told = await self._measure(job)
        self._books.heed_the_clock()
        job = self._books.jobs[job_id]
        ends = trail.ends()
        judged = trouble or retries.final(verdict(_wished(job, trail), ends))
        now = self._books.clock()
        times = (item for record in trail.records.values() for item in record.get("at", {}).items())
        at = {name: moment for name, moment in times if moment is not None}  # a job that was refused never ran
        finished = transitions.advance(
            replace(
                job,
                hosts=ends,
                artifacts=home,
                failure_reason=judged.reason,
                failure_message=judged.message if judged.message != judged.reason else "",
                exit_message=exit_message(ends),
                progress=told.progress,
                metrics=told.latest,
                pace=told.pace,
                metric_notes=told.notes,
                provenance=self._provenance(job, trail),
                peak=together(usage_of(record.get("usage", {})) for record in trail.records.values()),
                received={k: v for record in trail.records.values() for k, v in record.get("received", {}).items()},
                started_at=job.started_at or at.get("received"),
                timings={**at, **job.timings, **trail.moments, "final": now},
            ),
            judged.state,
            now,
            judged.message or judged.reason,
        )
        self._write(finished, healthy=judged.healthy, idle_from=min(now, at.get("ended", now)))
        if len(trail.hosts) > 1:
            self._agree_on_deadline(job)
        if trouble is None:
            self._forget(job, trail)
        self._teach(job, trail)
        self.on_verdict(finished)

    def _provenance(self, job: Job, trail: Trail) -> Provenance:
        cluster = self._books.clusters.get(job.cluster) or self._books.store.cluster(job.cluster)
        return provenance_of(job, cluster.hosts if cluster else (), trail.records)

    async def _begins_again(self, job: Job, trail: Trail) -> bool:
        """Put a job that failed by our fault, or was interrupted, at the start of its next attempt; keep its log apart.

        False where there is no next one.
        """
        ends, now = trail.ends(), self._books.clock()
        judged = verdict(job.goal, ends)
        if retries.next_attempt(job, judged, ends, now) is None:
            return False
        await self._keep_logs(job, trail)
        # Somebody may have stopped it meanwhile, or set the clock.
        self._books.heed_the_clock()
        now = self._books.clock()
        again = retries.next_attempt(self._books.jobs[job.id], judged, ends, now)
        if again is None:
            return False
        cluster = self._books.clusters.get(job.cluster)
        keep = _TAKEN if again.attempts[-1].interrupted else _UNFIT
        left = [] if cluster is None else [transitions.give_back(cluster, job.name, keep, now)]
        self._books.save(jobs=[again], clusters=left)
        return True

    async def _keep_logs(self, job: Job, trail: Trail) -> None:
        for host in trail.hosts:
            remains = self._remains(job, host)
            stream = None if trail.lost else self._agents.stream(job.cluster, host)
            record = trail.records.get(host, {})
            await self._pump.drain(job, host, int(record.get("log", 0)), stream, remains)
            await self.keep_samples(job, host, int(record.get("samples", 0)), stream, remains)

    def _uploading(self, job: Job) -> Job:
        moved = transitions.advance(job, SecondaryStatus.UPLOADING, self._books.clock())
        if moved is not job and job.state is not SecondaryStatus.STOPPING:
            self._books.save(jobs=[moved])
            return moved
        return job

    async def _bring_home(self, job: Job, trail: Trail) -> tuple[tuple[Artifact, ...], Verdict | None]:
        everything = []
        try:
            await self._keep_logs(job, trail)
            for host, record in trail.records.items():
                stream = None if trail.lost else self._agents.stream(job.cluster, host)
                everything.append(Left(host, record, stream, self._remains(job, host)))
            home = await self._staging.bring_home(job, everything)
        except UnavailableError:
            raise
        except SmxError as error:
            if error.transient:
                raise
            said = f"ClientError: The outputs could not be brought home: {error}"
            return (), Verdict(state=SecondaryStatus.FAILED, reason=said[:1024])
        return home, None

    def _remains(self, job: Job, host: str) -> Path | None:
        folder = self._engine_of(job.spec.engine).remains(job.cluster, host)
        return None if folder is None else folder / job.id

    def _write(self, job: Job, *, healthy: bool, idle_from: float) -> None:
        cluster = self._books.clusters.get(job.cluster)
        if cluster is None or cluster.state is ClusterState.RELEASING:
            self._books.save(jobs=[replace(job, warm_pool=transitions.pool_of_job(Keep(0, "The host was lost.")))])
            return
        if healthy:
            others = [other for other in self._books.clusters.values() if other.id != cluster.id]
            limits = self._books.limits
            keep = keep_alive.after_job(cluster, job.spec.keep_alive, others, limits, idle_from)
            waits = job.spec.array is not None and self._books.line.awaits_hosts(job.spec.array.id)
            left = keep_alive.chain_left(cluster, limits, idle_from)
            keep = array_pools.after_task(job, keep, left, others_wait=waits)
        else:
            keep = _UNFIT
        job = replace(job, warm_pool=transitions.pool_of_job(keep))
        given = transitions.give_back(cluster, job.name, keep, idle_from)
        if job.spec.array is not None and job.spec.keep_alive <= 0:
            given = replace(given, kept_for=job.spec.array.id)
        self._books.save(jobs=[job], clusters=[given])
        if given.state is ClusterState.AVAILABLE:
            self._books.holders[cluster.id] = job

    def _forget(self, job: Job, trail: Trail) -> None:
        self._done_with += [(job.cluster, host, job.id, job.lease) for host in trail.hosts]
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(FORGET_LATER, self._tell_to_forget)

    def _tell_to_forget(self) -> None:
        done_with, self._done_with, self._telling = self._done_with, [], None
        for cluster, host, job, lease in done_with:
            if self._agents.is_open(cluster):
                self._agents.stream(cluster, host).send_now("forget", job=job, lease=lease)

    def _teach(self, job: Job, trail: Trail) -> None:
        """Let idle hosts import while nobody waits what the next job is likely to import."""
        cluster = self._books.clusters.get(job.cluster)
        if cluster is None or cluster.state is not ClusterState.AVAILABLE or not self._agents.is_open(cluster.id):
            return
        told = self._taught.setdefault(cluster.id, set())
        for host in cluster.hosts:
            imported = trail.records.get(host.name, {}).get("modules", ())
            modules = worth_learning(job.spec.imports, imported, host, self._books.limits.preload_never)
            if not told.issuperset(modules):
                # The agent knows what came with something else; it is told of each module once.
                self._agents.stream(cluster.id, host.name).send_now("preload", modules=list(modules))
        told.update(*(record.get("modules", ()) for record in trail.records.values()), job.spec.imports)
        self._taught = {live: names for live, names in self._taught.items() if live in self._books.clusters}

    def stop_unstarted(self, job: Job, reason: str = "Stopped before the code began.") -> None:
        """End a job whose code never ran; hosts that were launched for it are kept as after any stop."""
        now = self._books.clock()
        if job.cluster:
            stopped = transitions.stopped_unrun(job, reason, now)
            self._write(stopped, healthy=True, idle_from=now)
            self._agree_on_deadline(job)
        else:
            stopped = transitions.never_ran(job, reason, now)
            self._books.save(jobs=[stopped])
        self.on_verdict(stopped)

    async def finish_or_fail(self, job_id: str, trail: Trail) -> None:
        """Bring everything home and write the verdict, that of our fault where the way to it broke off again and again.

        :raises UnforeseenError: it broke off; try again.
        :raises SmxError: as :meth:`finish`.
        """
        try:
            with unforeseen(_log, f"The end of {self._books.jobs[job_id].name}"):
                await self.finish(job_id, trail)
        except UnforeseenError as error:
            if job_id not in self._books.jobs:
                return  # its verdict is written down, and what broke off came after that
            if trail.broke_off(self._books.steady()) < MAX_BROKEN_OFF:
                raise
            self._give_up(job_id, error)

    def _give_up(self, job_id: str, error: SmxError) -> None:
        job, now = self._books.jobs[job_id], self._books.clock()
        reason = f"{retries.OURS}: {error}"[:1024]
        told = replace(job, failure_reason=reason, timings={**job.timings, "final": now})
        failed = transitions.advance(told, SecondaryStatus.FAILED, now, reason)
        self._write(failed, healthy=False, idle_from=now)
        self.on_verdict(failed)

    def _agree_on_deadline(self, job: Job) -> None:
        cluster = self._books.clusters.get(job.cluster)
        if cluster is None or cluster.expires_at is None or not self._agents.is_open(cluster.id):
            return
        for host in cluster.hosts:
            stream = self._agents.stream(cluster.id, host.name)
            stream.send_now("deadline", seconds=cluster.expires_at - self._books.clock())

    def fail_unstarted(self, jobs: Sequence[Job], reason: str) -> None:
        """End jobs for which no hosts could be had."""
        now = self._books.clock()
        failed = [_failed_unstarted(job, reason, now) for job in jobs]
        self._books.save(jobs=failed)
        for job in failed:
            self.on_verdict(job)

    async def fetch_record(self, job: Job, host: str) -> dict[str, Any]:
        """Read the end record of a job from the agent that has it.

        :raises UnavailableError: the agent does not answer.
        """
        stream = self._agents.stream(job.cluster, host)
        ask = partial(stream.request, "read", job=job.id, lease=job.lease, name="end.json", limit=stage_out.PIECE)
        try:
            reply, first = await ask(offset=0)
        except ResourceNotFoundError:
            return agent_messages.unreadable("it is not there")
        total, payload = agent_messages.count(reply.get("total")), bytearray(first)
        if total > stage_out.LONGEST_RECORD:
            return agent_messages.unreadable(f"it has {total} bytes, and {stage_out.LONGEST_RECORD} can be read")
        # The record names every file of every output, so it may be longer than one frame.
        while len(payload) < total:
            _, piece = await ask(offset=len(payload))
            if not piece:
                raise UnavailableError(f"The record of {job.name} on {host} cannot be read on.", transient=True)
            payload += piece
        return await asyncio.to_thread(stage_out.record_in, payload) or agent_messages.record(None)

    def obituary(self, job: Job, host: str) -> str:
        """Give what the engine knows of the end of a host, "" where that is nothing."""
        return self._engine_of(job.spec.engine).obituary(job.cluster, host)

    async def read_remains(self, job: Job, host: str) -> tuple[bool, dict[str, Any] | None]:
        """Say whether the code may have begun on a host that is gone, and read its record if it left one."""
        folder = self._remains(job, host)
        if folder is None:
            return True, None
        # A log is there from the moment in which a process has the job; before that, inputs are copied.
        gone = await asyncio.to_thread(untrusted_files.is_certainly_not_there, *stage_out.spooled(folder, "log"))
        return not gone, await asyncio.to_thread(stage_out.read_record, folder)

    def adopt_deadline(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Believe the agents when an idle pool has less time left than is written here: they end by their own clock."""
        left = [said["deadline"] for said in greetings.values() if said.get("deadline") is not None]
        if left and cluster.expires_at is not None:
            expires = self._books.clock() + min(left)
            # Never longer than was promised: an agent waits a little for us even where no keep-alive was asked for.
            if expires < cluster.expires_at - 1.0:
                self._books.amend_cluster(cluster.id, expires_at=expires)

    def preloaded(self, cluster_id: str, host: str, said: Mapping[str, Any]) -> None:
        """Write down what a host has imported for the jobs to come, and what it could not."""
        cluster = self._books.clusters.get(cluster_id)
        if cluster is None:
            return
        hosts = tuple(
            replace(
                h,
                preloaded=tuple(said.get("loaded", ())),
                preload_failures=dict(said.get("failed", {})),
                preload_costs=costs_of(said),
            )
            if h.name == host
            else h
            for h in cluster.hosts
        )
        self._books.amend_cluster(cluster_id, hosts=hosts)


def _wished(job: Job, trail: Trail) -> Goal:
    """Say by which goal an end is judged: that of when the code ended, unless the job was to begin again since then."""
    ends = trail.ends()
    then = replace(job, goal=trail.goal or job.goal)
    again = retries.next_attempt(then, verdict(then.goal, ends), ends, job.modified_at)
    return then.goal if again is None else job.goal


def _failed_unstarted(job: Job, reason: str, now: float) -> Job:
    failed = transitions.advance(replace(job, failure_reason=reason[:1024]), SecondaryStatus.FAILED, now, reason)
    return replace(failed, warm_pool=transitions.pool_of_job(_NOT_LAUNCHED))

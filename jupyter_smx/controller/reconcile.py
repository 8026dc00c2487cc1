"""The loop: load, decide, act, save, emit. It looks at each job, asks policy what is next, and does that one thing.

What concerns hosts is done by the :class:`~jupyter_smx.controller.fleet.Fleet`; what comes home at the end by
``staging``. The only clock is the one that is given.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jupyter_smx.controller.fencing import FencedError
from jupyter_smx.controller.fleet import Fleet
from jupyter_smx.controller.runspec import run_spec
from jupyter_smx.controller.trail import Trail
from jupyter_smx.model.cluster import Cluster, ClusterState
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.status import Goal, SecondaryStatus
from jupyter_smx.policy import admission, placement, reuse, transitions
from jupyter_smx.policy.hosts import named_hosts
from jupyter_smx.policy.lifecycle import JobStep, next_job_step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.controller.agents import Agents
    from jupyter_smx.controller.books import Books
    from jupyter_smx.controller.finish import Finisher
    from jupyter_smx.controller.log_pump import LogPump
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.job import Job
    from jupyter_smx.model.why import Why

_log = logging.getLogger(__name__)

MAX_REFUSALS = 3
MAX_ATTEMPTS = 3


class Reconciler:
    """Brings every job from where it is to where it should be."""

    def __init__(
        self,
        books: Books,
        agents: Agents,
        pump: LogPump,
        finisher: Finisher,
        engine_of: Callable[[str], Engine],
        *,
        new_id: Callable[[], str],
        user: str,
    ) -> None:
        self.books = books
        self.agents = agents
        self.fleet = Fleet(books, agents, engine_of, self)
        self.ended = asyncio.Event()
        self._pump = pump
        self._finisher = finisher
        self._engine_of = engine_of
        self._new_id = new_id
        self._user = user
        self._trails: dict[str, Trail] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: dict[JobStep, Callable[[Job], None]] = {
            JobStep.PLACE: self._place,
            JobStep.STOP_UNSTARTED: self._stop_unstarted,
            JobStep.DISPATCH: self._dispatch,
            JobStep.SEND_STOP: self._send_stop,
            JobStep.FINISH: self._finish,
            JobStep.REPLACE: self._replace,
            JobStep.FINISH_LOST: self._finish,
        }

    # What the outside asks

    def admit(self, job: Job) -> Job:
        """Take a new job in: refuse it, or write it down and do its first step at once.

        On a warm pool the run frame is in the agent's socket when this returns.

        :raises ValidationError, ResourceLimitError: nothing was written.
        """
        limits = self.books.limits
        if len(self.books.jobs) >= limits.max_jobs_queued:
            raise admission.queue_full(limits)
        self._place(job)
        return self.books.jobs.get(job.id) or self.books.job(job.id)

    def stop(self, job: Job) -> Job:
        """Set the goal of a job to stop and do the first step towards it; a finished job stays as it is."""
        live = self.books.jobs.get(job.id)
        if live is None or live.goal is Goal.STOP:
            return live or job
        now = self.books.clock()
        wanted = replace(live, goal=Goal.STOP, modified_at=now)
        if live.cluster:
            wanted = transitions.advance(wanted, SecondaryStatus.STOPPING, now)
        self.books.save(jobs=[wanted])
        self.step(job.id)
        return self.books.jobs.get(job.id) or self.books.job(job.id)

    def placement_of(self, job: Job) -> placement.Placement:
        """Ask policy where a job would go now; changes nothing."""
        spec = job.spec
        ahead = 0
        for other in self.books.jobs.values():
            if other.id == job.id:
                break
            ahead += not other.cluster and other.spec.engine == spec.engine
        clusters = tuple(c for c in self.books.clusters.values() if c.key.engine == spec.engine)
        world = placement.World(
            clusters=clusters,
            reachable=self.fleet.reachable(),
            ahead=ahead,
            running=sum(bool(other.cluster) for other in self.books.jobs.values()),
            bounded=self._engine_of(spec.engine).capabilities.bounded_by_machine,
        )
        key = reuse.reuse_key(spec, self._user)
        return placement.place(spec, key, world, self.books.limits, self.books.clock())

    # The loop

    async def start(self) -> None:
        """Carry on where the last controller was: learn first what became of jobs whose hosts are gone."""
        for job in [*self.books.jobs.values()]:
            lost = self.books.store.cluster(job.cluster) if job.cluster not in self.books.clusters else None
            if lost is not None:
                await self.cluster_lost(lost)
        self.tick()

    def step(self, job_id: str) -> None:
        """Look at one job, ask policy, and do that one thing."""
        job = self.books.jobs.get(job_id)
        if job is None:
            self._trails.pop(job_id, None)
            return
        trail = self._trail(job)
        if trail.finishing or self.books.clock() < trail.not_before:
            return
        # A lost cluster has left the books, but the job still has to learn what became of it there.
        on_hosts = self.books.cluster_of(job) or (self.books.store.cluster(job.cluster) if trail.lost else None)
        if job.cluster and on_hosts is None:
            return
        connected = bool(job.cluster) and self.agents.is_open(job.cluster)
        act = self._steps.get(next_job_step(job, on_hosts, trail.progress(connected=connected)))
        if act is not None:
            act(job)

    def tick(self) -> None:
        """Look at everything once: clusters first, then jobs, oldest first; only the head of a queue is placed."""
        self.fleet.step_all()
        waiting: set[str] = set()
        for job in [*self.books.jobs.values()]:
            if not job.cluster:
                if job.spec.engine in waiting and job.goal is Goal.RUN:
                    continue
                waiting.add(job.spec.engine)
            self.step(job.id)

    def room_made(self) -> None:
        """Place waiting jobs until the oldest of an engine has to wait."""
        for engine in {job.spec.engine for job in self.books.jobs.values() if not job.cluster}:
            for job in self.books.waiting(engine):
                self.step(job.id)
                after = self.books.jobs.get(job.id)
                if after is not None and not after.cluster:
                    break

    def fenced(self) -> None:
        """Another controller owns the records; whoever waits for ``ended`` takes this process down."""
        self.ended.set()

    # The steps of a job

    def _place(self, job: Job) -> None:
        decision = self.placement_of(job)
        if isinstance(decision, placement.Reuse):
            self._take(job, decision.cluster, decision.why)
        elif isinstance(decision, placement.Launch):
            self._launch(job, decision.why)
        else:
            self._wait(job, decision)

    def _take(self, job: Job, pool: Cluster, why: Why) -> None:
        now = self.books.clock()
        taken, told = self.books.take(pool, job)
        leased = transitions.advance(
            replace(
                job,
                cluster=taken.id,
                lease=taken.lease,
                why=_waited(why, job, now),
                warm_pool=transitions.pool_in_use(),
            ),
            SecondaryStatus.STARTING,
            now,
            "Reusing a warm pool.",
        )
        self.books.save(jobs=[leased, *told], clusters=[taken])
        self.step(job.id)

    def _launch(self, job: Job, why: Why) -> None:
        now = self.books.clock()
        fresh = Cluster(id=self._new_id(), key=reuse.reuse_key(job.spec, self._user), created_at=now)
        cluster = transitions.take(fresh, job.id, now)
        cluster = replace(cluster, state=ClusterState.PROVISIONING)
        why = replace(_waited(why, job, now), pool=cluster.name())
        started = transitions.advance(
            replace(job, cluster=cluster.id, lease=cluster.lease, why=why), SecondaryStatus.STARTING, now
        )
        # The intention to launch is on disk before the launch: a new controller must find it.
        self.books.save(jobs=[started], clusters=[cluster], durable=True)
        self.fleet.step(cluster.id)

    def _wait(self, job: Job, decision: placement.Wait) -> None:
        if job.id not in self.books.jobs or job.why != decision.why:
            self.books.save(jobs=[replace(job, why=decision.why)])
        for cluster_id in decision.evict:
            self.books.release_pool(self.books.clusters[cluster_id], f"Released early to make room for {job.name}.")
            self.fleet.step(cluster_id)

    def _dispatch(self, job: Job) -> None:
        trail = self._trail(job)
        hosts = named_hosts(job.spec.instance_groups)
        # A host that is done waits for the others, also while no controller lives; at the end all are told anew.
        keep_alive = job.spec.keep_alive + (job.spec.max_run if len(hosts) > 1 else 0)
        grace = self.books.limits.grace
        trail.moments.setdefault("sent", self.books.clock())
        for host in hosts:
            if host.name in trail.dispatched:
                continue
            stream = self.agents.stream(job.cluster, host.name)
            spec = run_spec(job, host.group, grace, keep_alive)
            answer = stream.send_now("run", job=job.id, lease=job.lease, spec=spec)
            trail.dispatched.add(host.name)
            answer.add_done_callback(partial(self._run_answered, job, host.name))
        if job.spec.channels:
            self._downloading(job)

    def _downloading(self, job: Job) -> None:
        moved = transitions.advance(job, SecondaryStatus.DOWNLOADING, self.books.clock())
        if moved is not job:
            self.books.save(jobs=[moved])

    def _run_answered(self, job: Job, host: str, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled() or answer.exception() is None:
            return
        # A closed stream tells nothing about the job: the next greeting says whether the agent has it.
        _log.warning("Job %s on %s: %s", job.name, host, answer.exception())
        trail = self._trails.get(job.id)
        if trail is None:
            return
        trail.dispatched.discard(host)
        if isinstance(answer.exception(), ValidationError):
            # Asking again would be answered in the same way for ever.
            self._host_ended(job.id, host, {"cause": "refused", "failure": str(answer.exception())})

    def _send_stop(self, job: Job) -> None:
        trail = self._trail(job)
        trail.stop_sent = True
        for host in set(trail.hosts) - set(trail.records):
            stream = self.agents.stream(job.cluster, host)
            grace = self.books.limits.grace
            stream.send_now("stop", job=job.id, lease=job.lease, grace=grace, cause="stopped")

    def _stop_unstarted(self, job: Job) -> None:
        self._finisher.stop_unstarted(job)
        self._trails.pop(job.id, None)
        if job.cluster:
            self.fleet.step(job.cluster)
        self.room_made()

    def _finish(self, job: Job) -> None:
        trail = self._trail(job)
        trail.finishing = True
        task = asyncio.create_task(self._finish_and_go_on(job, trail), name=f"finish {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish_and_go_on(self, job: Job, trail: Trail) -> None:
        try:
            await self._finisher.finish(job.id, trail)
        except FencedError:
            self.fenced()
            raise
        except SmxError as error:
            _log.warning("Job %s cannot be finished yet: %s", job.name, error)
            trail.finishing, trail.not_before = False, self.books.clock() + 1.0
            return
        self._trails.pop(job.id, None)
        self.fleet.step(job.cluster)
        self.room_made()

    def _replace(self, job: Job) -> None:
        self._trails.pop(job.id, None)
        again = replace(job, cluster="", lease=0, attempt=job.attempt + 1, warm_pool=None)
        if again.attempt > MAX_ATTEMPTS:
            self._finisher.fail_unstarted(job, "InternalServerError: Its hosts were lost before the code began.")
            return
        self.books.save(jobs=[again])
        self.step(job.id)

    # What the fleet and the agents say

    def cluster_ready(self, cluster: Cluster, greetings: Mapping[str, Mapping[str, Any]]) -> None:
        """Adopt what the agents know: jobs that run or ended, and how long an idle pool has left."""
        job = self.books.jobs.get(cluster.job)
        for host, said in greetings.items():
            for known, facts in said.get("jobs", {}).items():
                if job is not None and known == job.id:
                    self._adopt(job, host, facts)
                elif known not in self.books.jobs:
                    self.agents.stream(cluster.id, host).send_now("forget", job=known, lease=facts.get("lease", 0))
        if cluster.state is ClusterState.AVAILABLE:
            self._finisher.adopt_deadline(cluster, greetings)
            self.room_made()
        if job is not None:
            self.step(job.id)

    def _adopt(self, job: Job, host: str, facts: Mapping[str, Any]) -> None:
        job = self.books.jobs.get(job.id, job)  # another host's facts may have moved it on
        trail = self._trail(job)
        trail.dispatched.add(host)
        self._pump.grew(job, host, int(facts.get("log", 0)))
        if facts.get("phase") == "staging":
            self._downloading(job)
        at = facts.get("at", {})
        if at.get("first_line") is not None and "first_line" not in job.timings:
            # Nobody listened when the code began.
            self._first_line(job, {name: moment for name, moment in at.items() if moment is not None})
        if facts.get("phase") == "ended":
            task = asyncio.create_task(self._fetch_record(job, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _fetch_record(self, job: Job, host: str) -> None:
        try:
            record = await self._finisher.fetch_record(job, host)
        except SmxError as error:
            _log.warning("Job %s: the record on %s cannot be read yet: %s", job.name, host, error)
            return
        self._host_ended(job.id, host, record)

    def cluster_refused(self, cluster: Cluster, error: SmxError) -> None:
        """Try again after a transient refusal, a few times; otherwise the job failed before it began."""
        job = self.books.jobs.get(cluster.job)
        if job is None:
            return
        trail = self._trail(job)
        trail.refusals += 1
        if error.transient and trail.refusals < MAX_REFUSALS and job.goal is Goal.RUN:
            trail.not_before = self.books.clock() + 0.5 * 2**trail.refusals
            trail.hosts = ()
            self.books.save(jobs=[replace(job, cluster="", lease=0)])
            return
        if job.goal is Goal.STOP:
            self._finisher.stop_unstarted(replace(job, cluster="", lease=0))
        else:
            self._finisher.fail_unstarted(job, f"ClientError: {error}")
        self._trails.pop(job.id, None)
        self.room_made()

    async def cluster_lost(self, cluster: Cluster) -> None:
        """Read what the hosts left on disk; then the job ends by that, or begins again elsewhere."""
        job = next((each for each in self.books.jobs.values() if each.cluster == cluster.id), None)
        if job is None:
            return
        trail = self._trail(job)
        for host in trail.hosts:
            if host not in trail.records:
                ran, record = await self._finisher.read_remains(job, host)
                trail.ran |= ran
                if record is not None:
                    trail.records[host] = record
        trail.lost = True
        self.step(job.id)

    def agent_said(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        """Take one event frame of an agent; frames of another lease are stale and dropped."""
        try:
            self._take_event(cluster_id, host, header)
        except FencedError:
            self.fenced()

    def _take_event(self, cluster_id: str, host: str, header: Mapping[str, Any]) -> None:
        event = header.get("event")
        if event == "preload":
            self._finisher.preloaded(cluster_id, host, header)
            return
        job = self.books.jobs.get(str(header.get("job", "")))
        if job is None or job.cluster != cluster_id or header.get("lease") != job.lease:
            return
        if event == "first_line":
            self._first_line(job, header.get("at", {}))
        elif event == "grew":
            self._pump.grew(job, host, int(header.get("total", 0)))
        elif event == "ended":
            self._host_ended(job.id, host, dict(header.get("record", {})))

    def _first_line(self, job: Job, at: Mapping[str, float]) -> None:
        now = self.books.clock()
        timings = {**at, **job.timings, **self._trail(job).moments}
        begun = transitions.advance(replace(job, timings=timings), SecondaryStatus.TRAINING, now)
        self.books.save(jobs=[begun])
        cluster = self.books.clusters.get(job.cluster)
        if cluster is not None and cluster.cold_start_seconds is None and "first_line" in timings:
            took = timings["first_line"] - (job.spec.submitted_at or job.created_at)
            self.books.amend_cluster(cluster.id, cold_start_seconds=max(0.0, took))

    def _host_ended(self, job_id: str, host: str, record: dict[str, Any]) -> None:
        job = self.books.jobs.get(job_id)
        if job is None:
            return
        self._trail(job).records[host] = record
        self.step(job_id)

    def stream_closed(self, cluster_id: str) -> None:
        """Look at a cluster whose stream broke: reconnect, or learn that it is gone."""
        cluster = self.books.clusters.get(cluster_id)
        job = self.books.jobs.get(cluster.job) if cluster else None
        trail = self._trails.get(job.id) if job else None
        if trail is not None:
            # What was sent may not have arrived; the agent's greeting tells, and a second run is harmless.
            trail.dispatched.clear()
            trail.stop_sent = False
        self.fleet.step(cluster_id)

    def _trail(self, job: Job) -> Trail:
        trail = self._trails.setdefault(job.id, Trail())
        if job.cluster and not trail.hosts:
            trail.hosts = tuple(host.name for host in named_hosts(job.spec.instance_groups))
        return trail

    async def settle(self) -> None:
        """Wait until nothing is under way; for tests and an orderly end."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.fleet.settle()

    def close(self) -> None:
        """Stop acting; jobs and hosts live on and a new controller finds them."""
        self.fleet.close()
        for task in self._tasks:
            task.cancel()


def _waited(why: Why, job: Job, now: float) -> Why:
    if job.why is None or job.why.start != "queued":
        return why
    return replace(why, notes=(*why.notes, f"It waited {now - job.created_at:.1f} s in the queue."))

"""The loop: load, decide, act, save, emit. It looks at each job, asks policy what is next, and does that one thing.

What concerns hosts is done by the :class:`~jupyter_smx.controller.scheduling.cluster_reconciler.Fleet`,
what they say is taken down by the :class:`~jupyter_smx.controller.scheduling.job_events.Listener`. ``finalize`` and
``stage_out`` collect outputs at the end. The only clock is the one that is given.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.agent.wire import VERSION
from jupyter_smx.controller.errors import FencedError, alone
from jupyter_smx.controller.scheduling import engine_capabilities
from jupyter_smx.controller.scheduling.cluster_reconciler import Fleet
from jupyter_smx.controller.scheduling.desired_state import Goals
from jupyter_smx.controller.scheduling.dispatch import Dispatcher
from jupyter_smx.controller.scheduling.job_events import Listener
from jupyter_smx.controller.scheduling.preparation import Preparation
from jupyter_smx.controller.scheduling.scheduler import Turns
from jupyter_smx.controller.scheduling.stop_request import tell_to_end
from jupyter_smx.controller.unexpected import UnforeseenError, unforeseen
from jupyter_smx.model.errors import SmxError, ValidationError
from jupyter_smx.model.records.cluster import Cluster, ClusterState
from jupyter_smx.model.results.start_reason import Why
from jupyter_smx.model.spec.instance import look_up
from jupyter_smx.model.status import ENDING, Goal, SecondaryStatus
from jupyter_smx.policy.admission import checks
from jupyter_smx.policy.lifecycle import spot, transitions
from jupyter_smx.policy.lifecycle.dependencies import FREE
from jupyter_smx.policy.lifecycle.next_step import JobStep, Progress, next_job_step
from jupyter_smx.policy.lifecycle.outcome import Verdict, cause_told, goal_at_end
from jupyter_smx.policy.lifecycle.retries import MAX_PLACEMENTS, NEVER_BEGAN, next_attempt
from jupyter_smx.policy.scheduling import array_pools, placement, reuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.environments.cache import Environments
    from jupyter_smx.controller.scheduling.finalize import Finisher
    from jupyter_smx.controller.state.job_runtime import Trail
    from jupyter_smx.controller.state.live_state import Books
    from jupyter_smx.controller.telemetry.log_collector import LogPump
    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.job import Job

_log = logging.getLogger(__name__)


class Reconciler(Listener):
    """Brings every job from where it is to where it should be."""

    def __init__(
        self,
        books: Books,
        agents: Agents,
        pump: LogPump,
        finisher: Finisher,
        engine_of: Callable[[str], Engine],
        *,
        environments: Environments,
        new_id: Callable[[], str],
        user: str,
    ) -> None:
        super().__init__(books, agents, pump, finisher)
        self.fleet = Fleet(books, agents, engine_of, self, python_of=environments.python_of)
        self.preparation = Preparation(books, environments, engine_of, self, user)
        self.dispatcher = Dispatcher(books, agents, engine_of, self)
        self.goals = Goals(books, engine_of, self.step, self._is_ending)
        self._turns = Turns(books, self.preparation, self._step_alone)
        self.ended = asyncio.Event()
        self._engine_of = engine_of
        self._new_id = new_id
        self._user = user
        self._steps: dict[JobStep, Callable[[Job], None]] = {
            JobStep.HOLD: self._hold,
            JobStep.END_UNRUN: self._end_unrun,
            JobStep.PREPARE: self.preparation.begin,
            JobStep.PLACE: self._place,
            JobStep.STOP_UNSTARTED: self._stop_unstarted,
            JobStep.BRING: self._bring,
            JobStep.DISPATCH: self._dispatch,
            JobStep.SEND_STOP: self._send_stop,
            JobStep.DRAIN: self._drain,
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
        self.books.heed_the_clock()
        self._turns.wish_came()
        limits = self.books.limits
        if len(self.books.jobs) >= limits.max_jobs_queued:
            raise checks.queue_full(limits)
        progress = Progress(prepared=self.preparation.is_over(job))
        self._steps[next_job_step(job, None, progress, self.books.line.order(job))](job)
        return self.books.jobs.get(job.id) or self.books.job(job.id)

    def placement_of(self, job: Job) -> placement.Placement:
        """Ask policy where a job would go now; changes nothing."""
        spec, limits = job.spec, self.books.limits
        capabilities = self._engine_of(spec.engine).capabilities
        mine, others = engine_capabilities.neighbours(self._engine_of, self.books.clusters.values(), spec.engine)
        world = placement.World(
            clusters=mine,
            others=others,
            reachable=self.fleet.reachable(),
            foreign=self.fleet.foreign(),
            version=VERSION,
            ahead=self.books.line.ahead_of(job),
            running=sum(bool(other.cluster) for other in self.books.jobs.values()) if limits.max_jobs_running else 0,
            bounded=capabilities.bounded_by_machine,
            own_gpus=capabilities.own_gpus,
        )
        key = reuse.reuse_key(spec, self._user, job.image)
        decision = placement.place(spec, key, world, limits, self.books.clock())
        return placement.noted(placement.noted(decision, self.preparation.note(job)), spot.note(job))

    # The loop

    async def start(self) -> None:
        """Carry on where the last controller was: learn first what became of jobs whose hosts are gone."""
        self.books.heed_the_clock()
        for job in [*self.books.jobs.values()]:
            # One whose remains cannot be read keeps no other from its turn.
            with alone(_log, "What job {} left cannot be read", job.name), unforeseen(_log, f"A look at {job.name}"):
                if (lost := self._left_without(job)) is not None:
                    await self.cluster_lost(lost)
        self.tick()

    def step(self, job_id: str) -> None:
        """Look at one job, ask policy, and do that one thing."""
        job = self.books.jobs.get(job_id)
        if job is None:
            self._drop_trail(job_id)
            self.preparation.drop(job_id)
            return
        trail = self._trail(job)
        if trail.finishing or trail.reading or self.books.steady() < trail.not_before:
            return
        if trail.begun is not None:
            self._first_line(job, trail.begun)
            job = self.books.jobs[job_id]
        if (lost := self._left_without(job)) is not None and not trail.lost:
            self._begin(self._learn_of_loss(job, lost), f"lost {job.id}")
            return
        # A lost cluster has left the books, but the job still has to learn what became of it there.
        on_hosts = self.books.cluster_of(job) or lost
        if job.cluster and on_hosts is None:
            return
        if job.cluster in self.fleet.foreign():
            job = self._tell_of_another_version(job)
        connected = bool(job.cluster) and self.agents.is_open(job.cluster)
        order = self.books.line.order(job) if on_hosts is None else FREE
        prepared = bool(job.cluster) or self.preparation.is_over(job)
        progress = trail.progress(connected=connected, prepared=prepared, sees_here=self.dispatcher.sees_all(job))
        act = self._steps.get(next_job_step(job, on_hosts, progress, order))
        if act is not None:
            act(job)

    def tick(self) -> None:
        """Look at everything once: clusters first, then jobs that have hosts or a wish to stop, then the line."""
        self.books.heed_the_clock()
        self.fleet.step_all()
        self.goals.look()
        for job in [*self.books.jobs.values()]:
            if job.cluster or job.goal in ENDING:
                self._step_alone(job)
        self.preparation.look()
        self.room_made()

    def _step_alone(self, job: Job) -> None:
        with alone(_log, "Job {} cannot be looked at", job.name):
            try:
                with unforeseen(_log, f"A look at {job.name}"):
                    self.step(job.id)
            except UnforeseenError:
                self._trail(job).broke_off(self.books.steady())
                raise

    def room_made(self) -> None:
        """Look at the jobs that wait for others, then call those in the line until one has to stay in it."""
        self._turns.look_at_held()
        for pool in array_pools.kept_in_vain(self.books.clusters.values(), self.books.line.awaits_hosts):
            self.books.release_pool(pool, "Every task of its array has begun.")
            self.fleet.step(pool.id)
        self._turns.call()

    def _is_ending(self, job: Job) -> bool:
        trail = self._trails.get(job.id)
        return trail is not None and (trail.finishing or trail.lost or trail.has_ended())

    def fenced(self) -> None:
        """Another controller owns the records; whoever waits for ``ended`` takes this process down."""
        self.ended.set()

    # The steps of a job

    def _hold(self, job: Job) -> None:
        why = Why(start="queued", sentence=self.books.line.order(job).sentence())
        if job.id not in self.books.jobs or job.why != why:
            self.books.save(jobs=[replace(job, why=why)])

    def _end_unrun(self, job: Job) -> None:
        order = self.books.line.order(job)
        if order.verdict is SecondaryStatus.STOPPED:
            self._finisher.stop_unstarted(job, order.reason)
        else:
            self._finisher.fail_unstarted([job], order.reason)
        self.preparation.drop(job.id)
        self._drop_trail(job.id)

    def _place(self, job: Job) -> None:
        try:
            for group in job.spec.instance_groups:
                look_up(group.instance_type, self.books.limits.catalogue)
        except ValidationError as error:
            # The administrator took it out of the configuration while the job waited.
            self._finisher.fail_unstarted([job], f"ClientError: {error}")
            self._drop_trail(job.id)
            return
        decision = self.placement_of(job)
        if isinstance(decision, placement.Wait):
            self._wait(job, decision)
            return
        self.preparation.used(job)
        if isinstance(decision, placement.Reuse):
            self._take(job, decision)
        else:
            self._launch(job, decision)

    def _take(self, job: Job, decision: placement.Reuse) -> None:
        now = self.books.clock()
        taken, told = self.books.take(decision.cluster, job)
        taken = replace(taken, gpus=decision.gpus)
        leased = transitions.advance(
            replace(
                job,
                cluster=taken.id,
                lease=taken.lease,
                why=placement.waited(decision.why, job, now),
                warm_pool=transitions.pool_in_use(),
            ),
            SecondaryStatus.STARTING,
            now,
            "Reusing a warm pool.",
        )
        self.books.save(jobs=[leased, *told], clusters=[taken])
        self._trail(leased).moments["committed"] = self.books.clock()
        self.step(job.id)

    def _launch(self, job: Job, decision: placement.Launch) -> None:
        now = self.books.clock()
        fresh = Cluster(id=self._new_id(), key=reuse.reuse_key(job.spec, self._user, job.image), created_at=now)
        cluster = transitions.take(fresh, job.id, now)
        cluster = replace(cluster, state=ClusterState.PROVISIONING, gpus=decision.gpus)
        why = replace(placement.waited(decision.why, job, now), pool=cluster.name())
        started = transitions.advance(
            replace(job, cluster=cluster.id, lease=cluster.lease, why=why), SecondaryStatus.STARTING, now
        )
        # The intention to launch is on disk before the launch: a new controller must find it.
        self.books.save(jobs=[started], clusters=[cluster], durable=True)
        self.fleet.step(cluster.id)
        self.fleet.let_outlived_go(decision.outlived)

    def _wait(self, job: Job, decision: placement.Wait) -> None:
        why = placement.remembered(decision.why, job)
        if job.id not in self.books.jobs or job.why != why:
            self.books.save(jobs=[replace(job, why=why)])
        for cluster_id in decision.evict:
            self.books.release_pool(self.books.clusters[cluster_id], f"Released early to make room for {job.name}.")
            self.fleet.step(cluster_id)

    def _bring(self, job: Job) -> None:
        trail = self._trail(job)
        if job.spec.channels:
            self._downloading(job)
        self.dispatcher.bring(job, trail)

    def _dispatch(self, job: Job) -> None:
        self.dispatcher.give(job, self._trail(job))
        if job.spec.channels or job.spec.checkpoint:
            self._downloading(job)

    def _send_stop(self, job: Job) -> None:
        trail = self._trail(job)
        trail.stop_sent = True
        limits = self.books.limits
        grace = limits.interruption_grace if job.goal is Goal.INTERRUPT else limits.grace
        tell_to_end(self.agents, job, set(trail.hosts) - set(trail.records), grace, cause_told(job.goal))

    def _drain(self, job: Job) -> None:
        trail = self._trail(job)
        due = trail.to_drain()
        trail.drained.update(due)
        tell_to_end(self.agents, job, due, self.books.limits.grace, "drained")

    def _stop_unstarted(self, job: Job) -> None:
        self._finisher.stop_unstarted(job)
        self.preparation.drop(job.id)
        self._drop_trail(job.id)
        if job.cluster:
            self.fleet.step(job.cluster)
        self.room_made()

    def _finish(self, job: Job) -> None:
        trail = self._trail(job)
        trail.count_out()
        trail.finishing, trail.goal = True, trail.goal or goal_at_end(job, trail.ends())
        self._begin(self._finish_and_go_on(job, trail), f"finish {job.id}")

    async def _finish_and_go_on(self, job: Job, trail: Trail) -> None:
        try:
            await self._finisher.finish_or_fail(job.id, trail)
        except FencedError:
            self.fenced()
            raise
        except SmxError as error:
            self._put_off(job.id, error)
            return
        finally:
            trail.finishing = False
            trail.not_before = max(trail.not_before, self.books.steady() + 1.0)
        self._drop_trail(job.id)
        self.fleet.step(job.cluster)
        self.room_made()

    def _replace(self, job: Job) -> None:
        self._drop_trail(job.id)
        again = placement.lost(job, self.books.clock())
        if again.placements > MAX_PLACEMENTS:
            lost = Verdict(state=SecondaryStatus.FAILED, reason=NEVER_BEGAN)
            retried = next_attempt(job, lost, (), self.books.clock())
            if retried is None:
                self._finisher.fail_unstarted([job], NEVER_BEGAN)
                self.room_made()
                return
            again = retried
        self.books.save(jobs=[again])
        self.step(job.id)

    def stream_closed(self, cluster_id: str) -> None:
        """Look at a cluster whose stream broke: reconnect, or learn that it is gone."""
        cluster = self.books.clusters.get(cluster_id)
        job = self.books.jobs.get(cluster.job) if cluster else None
        trail = self._trails.get(job.id) if job else None
        if trail is not None:
            # What was sent may not have arrived; the agent's greeting tells, and a second run is harmless.
            trail.dispatched.clear()
            trail.stop_sent = False
            trail.drained.clear()
        self.fleet.step(cluster_id)

    async def settle(self) -> None:
        """Wait until nothing is under way; for tests and an orderly end."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.preparation.settle()
        await self.dispatcher.settle()
        await self.fleet.settle()

    def close(self) -> None:
        """Stop acting; jobs and hosts live on and a new controller finds them."""
        self._turns.close()
        self.fleet.close()
        self.preparation.close()
        self.dispatcher.close()
        for task in self._tasks:
            task.cancel()

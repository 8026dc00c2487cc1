"""Invariants that are checked after every step of a random history, and that all jobs end.

The histories are those of :mod:`jupyter_smx.testing.simulation.state_machine`. The fake
world counts by itself; code under test cannot reach its counts.
"""

# ruff: noqa: D401 - the sentence of an invariant is a statement

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine, invariant
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.spec.array import task_id
from jupyter_smx.model.status import DesiredState, SecondaryStatus, Status, can_transition, is_final
from jupyter_smx.policy.lifecycle import attempts, environment, renewal
from jupyter_smx.policy.scheduling import capacity, reuse
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from jupyter_smx.controller.api.array_facade import ArrayRequest
    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import Job

MACHINE_LIMITS = replace(
    LIMITS, unreachable_limit=60.0, launch_limit=30.0, max_keep_alive_chain=3_600, warm_pool_quota={"local": 2}
)
OVER_TIME = frozenset({SecondaryStatus.MAX_RUNTIME_EXCEEDED, SecondaryStatus.MAX_WAIT_TIME_EXCEEDED})
MAX_ROUNDS = 200
"""Rounds of ten seconds in which everything must come to its end."""


def is_progress(old: tuple[int, SecondaryStatus], new: tuple[int, SecondaryStatus]) -> bool:
    """Return True if (attempt, step) ``new`` is later than ``old``: a new attempt begins again, and no verdict changes.

    Only after the download of an image a job waits again.
    """
    if (old[1], new[1]) == (SecondaryStatus.DOWNLOADING, SecondaryStatus.PENDING):
        return old[0] == new[0]
    return can_transition(old[1], new[1]) if new[0] == old[0] else new[0] > old[0] and not is_final(old[1])


class Invariants(RuleBasedStateMachine):
    """A simulation, what its users asked for, and what must be so whatever happens."""

    engine: type[FakeEngine] = FakeEngine

    def __init__(self) -> None:
        super().__init__()
        self.sim = Simulation(limits=MACHINE_LIMITS, engine=self.engine)
        self.sim.world.builder.broken_requirements.add("gone")
        self.jobs: dict[str, dict[str, Any]] = {}
        self.arrays: dict[str, ArrayRequest] = {}
        self.stop_requests: set[str] = set()
        self.interruption_counts: Counter[str] = Counter()
        self.has_random_interruptions = False
        """True if the engine ever interrupted hosts at random: their number is not counted then."""
        self.event_cursor = 0
        self.steps: dict[str, tuple[int, SecondaryStatus]] = {}
        self.outcomes: dict[str, tuple[SecondaryStatus, str]] = {}

    def is_alive(self) -> bool:
        """Return True if there is a controller."""
        return not self.sim.controller.is_dead

    def _tasks(self, array: str) -> list[str]:
        return [task_id(array, index) for index in range(len(self.arrays[array].tasks))]

    def _requests(self) -> dict[str, dict[str, Any]]:
        arrays = {job: {"retries": wish.spec.retries} for a, wish in self.arrays.items() for job in self._tasks(a)}
        return self.jobs | arrays

    # The invariants

    @invariant()
    def no_error_was_swallowed(self) -> None:
        """No internal error was only logged, or lost."""
        assert not self.sim.bugs, "\n".join(self.sim.bugs)

    @invariant()
    def code_runs_once(self) -> None:
        """The world counted: a job runs on one cluster, once on each host; a retry on another one, never beside it."""
        world = self.sim.world
        assert all(count == 1 for count in world.run_counts.values()), world.run_counts
        allowed = {job: 1 + wish.get("retries", 0) for job, wish in self._requests().items()}
        if not self.has_random_interruptions:
            assert all(
                len(on) <= allowed[job] + self.interruption_counts[job] for job, on in world.job_clusters.items()
            ), world.job_clusters
        assert not world.overlaps
        assert all(count == 1 for count in self.sim.world.launches.values()), self.sim.world.launches

    @invariant()
    def arrays_are_whole_and_keep_their_limits(self) -> None:
        """All tasks of an array are on record or none, and no more have hosts than it allows."""
        if not self.is_alive():
            return
        books = self.sim.controller.live_state
        for array, wish in self.arrays.items():
            tasks = self.sim.controller.store.arrays.tasks(array)
            assert len(tasks) in {0, len(wish.tasks)}
            placed = [job for job in self._tasks(array) if job in books.jobs and books.jobs[job].cluster]
            assert not wish.max_concurrent or len(placed) <= wish.max_concurrent

    @invariant()
    def order_is_kept(self) -> None:
        """No code began before every dependency of its job had completed."""
        if not self.is_alive():
            return
        wishes = self._requests()
        for job in self.sim.world.job_clusters:
            before = [self.sim.controller.store.job(each) for each in wishes[job].get("after", ())]
            assert all(each is not None and each.status() is Status.COMPLETED for each in before)

    @invariant()
    def environments_are_built_once_at_a_time_for_somebody_and_before_they_are_used(self) -> None:
        """One build of each, none that no job waits for, and no host on an incomplete one."""
        world = self.sim.world
        assert not world.builder.overlaps
        assert not world.unready_pythons
        if self.is_alive():
            live = self.sim.controller.live_state.jobs.values()
            wanted = [reuse.reuse_key(job.spec, "") for job in live if not job.cluster]
            names = {environment.environment_id(key.python, key.environment) for key in wanted if key.environment}
            assert set(world.builder.running_builds) <= names

    @invariant()
    def every_live_host_is_recorded(self) -> None:
        """Every living host is on record, unless a killed controller had just launched it."""
        if self.is_alive():
            known = self.sim.controller.live_state.clusters
            assert {host.cluster for host in self.sim.world.live_hosts()} <= known.keys()

    @invariant()
    def capacity_is_never_exceeded(self) -> None:
        """Neither in the world nor on paper."""
        limits = self.sim.limits
        assert self.sim.world.most_hosts <= limits.max_hosts
        used = capacity.used_share(self.sim.controller.live_state.clusters.values(), limits)
        assert used.hosts <= limits.max_hosts
        assert used.cpus <= limits.cpus

    @invariant()
    def jobs_only_move_on(self) -> None:
        """A published status never goes back, and a verdict never changes."""
        if not self.is_alive():
            return
        events, newest, reset = self.sim.controller.store.events_since(self.event_cursor, 10_000)
        assert not reset
        self.event_cursor = newest
        for event in events:
            self._check_event(event)

    def _check_event(self, event: Event) -> None:
        job = event.job
        if job is None:
            return
        before = self.steps.get(job.id)
        step, now = job.secondary_status, (job.attempt, job.secondary_status)
        assert before is None or before == now or is_progress(before, now), f"{job.name} went from {before} to {now}"
        self.steps[job.id] = now
        if is_final(step):
            verdict = (step, job.message)
            assert self.outcomes.setdefault(job.id, verdict) == verdict
        wish = self._requests()[job.id]
        if step is SecondaryStatus.INTERRUPTED:
            assert wish.get("spot"), f"{job.name} was promised its hosts"
        if step is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED:
            assert wish.get("max_wait")
        if step is SecondaryStatus.STOPPED:
            reasons = {job.id, *self._requests()[job.id].get("after", ())}
            # In SageMaker's terms a job over its time limit is Stopped, too, and so are the jobs that depend on it.
            late = any(self.steps.get(each, (0, None))[1] in OVER_TIME for each in reasons)
            assert late or reasons & self.stop_requests, f"{job.name} was stopped, and nobody had asked"
            self.stop_requests.add(job.id)  # jobs that depend on it are stopped, too

    @invariant()
    def jobs_and_clusters_point_at_each_other(self) -> None:
        """No cluster is busy for a job that is not on it."""
        if not self.is_alive():
            return
        books = self.sim.controller.live_state
        for cluster in books.clusters.values():
            continues_pool = cluster.state is ClusterState.PROVISIONING and renewal.is_without_job(cluster)
            if cluster.state in {ClusterState.PROVISIONING, ClusterState.IN_USE} and not continues_pool:
                assert cluster.job in books.jobs, f"{cluster.id} is {cluster.state} for {cluster.job}"
                assert books.jobs[cluster.job].cluster == cluster.id
            else:
                assert not cluster.job

    # The end

    def teardown(self) -> None:
        """End everything, and check that nothing is left."""
        try:
            if not self.sim.bugs:
                self._finish_everything()
        finally:
            self.sim.close()

    def _finish_everything(self) -> None:
        self.sim.set_faults()
        self.sim.engine.interruptions_per_hour = 0.0
        self.sim.controller.store.writes_left = None
        if not self.is_alive():
            self.sim.restart()
        for _ in range(MAX_ROUNDS):
            books = self.sim.controller.live_state
            if not books.jobs and not books.clusters:
                break
            self.sim.pass_time(10.0)
            for _, run in self.sim.world.running_jobs():
                self.sim.end_job(run.job)
        self.no_error_was_swallowed()
        self.code_runs_once()
        self.jobs_only_move_on()
        books = self.sim.controller.live_state
        assert not books.jobs, f"without a verdict: {[*books.jobs.values()]}"
        assert not books.clusters, f"still there: {[*books.clusters.values()]}"
        assert not self.sim.world.live_hosts(), "hosts that nobody knows of cost money"
        self._the_records_add_up()

    def _the_records_add_up(self) -> None:
        store, idle = self.sim.controller.store, dict[str, int]()
        found = [job for job_id in self._requests() if (job := store.job(job_id)) is not None]
        for job in found:
            assert is_final(job.state)
            self._interruptions_add_up(job)
            self._the_outcome_is_true(job)
            assert job.warm_pool is not None
            assert job.warm_pool.status in {WarmPoolStatus.REUSED, WarmPoolStatus.TERMINATED}, job.warm_pool
            seconds = job.warm_pool.resource_retained_billable_seconds
            idle[job.cluster] = idle.get(job.cluster, 0) + seconds
        for cluster_id, retained in idle.items():
            cluster = store.cluster(cluster_id) if cluster_id else None
            if cluster is not None:
                assert abs(retained - cluster.retained_seconds) <= cluster.jobs_served, (cluster, retained)

    def _interruptions_add_up(self, job: Job) -> None:
        """No interruption is lost or doubled: each published one is an attempt, or the job ended first."""
        told = sum(row.status is SecondaryStatus.INTERRUPTED for row in job.transitions)
        assert told - job.interruptions() in {0, 1}
        if told > job.interruptions():
            assert job.goal is not DesiredState.RUN
        assert self.has_random_interruptions or told <= self.interruption_counts[job.id]
        assert job.attempt == 1 + len(job.attempts)
        assert job.attempt <= job.max_attempts()

    def _the_outcome_is_true(self, job: Job) -> None:
        codes = [end.exit_code for end in job.hosts]
        if job.status() is Status.COMPLETED:
            assert codes
            assert set(codes) == {0}
            assert job.id in self.sim.world.job_clusters
        if job.status() is Status.FAILED:
            assert job.failure_reason
        if job.failure_reason.startswith(attempts.INTERNAL_ERROR) and job.attempt < job.max_attempts():
            began = attempt_started_at(job) or job.created_at
            ran = (job.ended_at or 0.0) - began if job.ran_seconds is None else job.ran_seconds
            assert attempts.remaining_seconds(job) - ran < 1, "it had a retry left"

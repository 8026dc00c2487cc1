"""Random histories: users, hosts, engines and controllers do what they like, and nothing that was promised breaks.

The real core runs over a fake world in simulated time (:mod:`jupyter_smx.testing.simulation`). After every step the
promises are checked through side doors; at the end every job must have its verdict and the world must be empty.
"""

# ruff: noqa: D401 - the sentence of a rule says what somebody else does

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from jupyter_smx.controller.arrays import ArrayWish
from jupyter_smx.controller.fencing import RecordsError
from jupyter_smx.model.array import TaskWish, task_id
from jupyter_smx.model.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.status import SecondaryStatus, Status, is_final, is_news
from jupyter_smx.policy import capacity, environment, retries, reuse, transitions
from jupyter_smx.testing import fakes
from jupyter_smx.testing.fake_host import Script
from jupyter_smx.testing.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from jupyter_smx.model.event import Event
    from jupyter_smx.model.job import Job

MACHINE_LIMITS = replace(
    LIMITS, unreachable_limit=60.0, launch_limit=30.0, max_keep_alive_chain=3_600, warm_pool_quota={"local": 2}
)
KEEP_ALIVES = (0, 20, 120)
PATIENCE = 200
"""Rounds of ten seconds in which everything must come to its end."""

which = st.integers(min_value=0, max_value=7)


class Histories(RuleBasedStateMachine):
    """Every rule is something that somebody may do at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.sim = Simulation(limits=MACHINE_LIMITS)
        self.sim.world.builder.failing.add("gone")
        self.jobs: dict[str, dict[str, Any]] = {}
        self.arrays: dict[str, ArrayWish] = {}
        self.asked_to_stop: set[str] = set()
        self.seen = 0
        self.steps: dict[str, tuple[int, SecondaryStatus]] = {}
        self.verdicts: dict[str, tuple[SecondaryStatus, str]] = {}

    def alive(self) -> bool:
        """Say whether there is a controller."""
        return not self.sim.controller.dead

    # Users

    @precondition(alive)
    @rule(
        role=st.sampled_from(["", "other"]),
        hosts=st.integers(min_value=1, max_value=3),
        keep_alive=st.sampled_from(KEEP_ALIVES),
        honours_stop=st.booleans(),
        starts_after=st.sampled_from([0.0, 0.0, 3.0]),
        max_run=st.sampled_from([100, 86_400]),
        follows=st.sampled_from([(), (), (0,), (1,), (0, 2)]),
        retries=st.sampled_from([0, 0, 1, 3]),
        requirements=st.sampled_from([(), (), ("numpy",), ("Numpy ",), ("torch", "numpy"), ("gone",)]),
    )
    def submit(self, honours_stop: bool, starts_after: float, follows: tuple[int, ...], **wish: Any) -> None:
        """A user wants a job, maybe after others."""
        known = [each for each in self.jobs if self.sim.controller.store.job(each) is not None]
        wish["after"] = tuple(dict.fromkeys(known[-1 - number % len(known)] for number in follows if known))
        job = self.sim.new_id()
        self.sim.world.scripts[job] = Script(honours_stop=honours_stop, starts_after=starts_after)
        self.jobs[job] = wish
        self.sim.submit(job_id=job, **wish)

    @precondition(alive)
    @rule(
        size=st.integers(min_value=1, max_value=4),
        max_concurrent=st.sampled_from([0, 0, 1, 2]),
        keep_alive=st.sampled_from([0, 0, 20]),
        retries=st.sampled_from([0, 2]),
    )
    def submit_array(self, size: int, max_concurrent: int, **wish: Any) -> None:
        """A user wants many jobs at once."""
        array = self.sim.new_id()
        tasks = tuple(TaskWish(label=str(index)) for index in range(size))
        self.arrays[array] = ArrayWish(spec=self.sim.spec(**wish), tasks=tasks, max_concurrent=max_concurrent)
        self.sim.call(lambda: self.sim.controller.desk.arrays.submit(array, self.arrays[array]))

    @precondition(lambda self: self.alive() and self.arrays)
    @rule(number=which, again=st.booleans())
    def stop_array(self, number: int, again: bool) -> None:
        """A user wants none of them any more, or sends the same wish once more."""
        array = [*self.arrays][-1 - number % len(self.arrays)]
        desk = self.sim.controller.desk.arrays
        if again:
            self.sim.call(lambda: desk.submit(array, self.arrays[array]))
            return
        self.asked_to_stop.update(self._tasks(array))
        with contextlib.suppress(SmxError):
            self.sim.call(lambda: desk.stop(desk.find(array)))

    def _tasks(self, array: str) -> list[str]:
        return [task_id(array, index) for index in range(len(self.arrays[array].tasks))]

    def _wishes(self) -> dict[str, dict[str, Any]]:
        arrays = {job: {"retries": wish.spec.retries} for a, wish in self.arrays.items() for job in self._tasks(a)}
        return self.jobs | arrays

    @precondition(alive)
    @rule(keep_alive=st.sampled_from(KEEP_ALIVES), dies_at=st.sampled_from([None, *range(1, 9)]), before=st.booleans())
    def a_job_comes_and_goes(self, keep_alive: int, dies_at: int | None, before: bool) -> None:
        """A short job, through whose life a controller may die at any write."""
        if dies_at is not None:
            self.sim.kill_controller_at_write(dies_at, before=before)
        job = self.sim.new_id()
        self.jobs[job] = {"keep_alive": keep_alive}
        self.sim.submit(job_id=job, keep_alive=keep_alive)
        self.sim.pass_time(1.0)
        self.sim.end_job(job)

    @precondition(lambda self: self.alive() and self.jobs)
    @rule(number=which)
    def submit_again(self, number: int) -> None:
        """A kernel that got no answer sends its wish again."""
        job = self._job(number)
        self.sim.submit(job_id=job, **self.jobs[job])

    @precondition(lambda self: self.alive() and self.jobs)
    @rule(number=which)
    def stop(self, number: int) -> None:
        """A user wants no job any more."""
        job = self._job(number)
        self.asked_to_stop.add(job)
        with contextlib.suppress(SmxError):
            # A job whose submission died with the controller is not known.
            self.sim.stop(job)

    @precondition(lambda self: self.alive() and self.sim.pools())
    @rule(number=which, seconds=st.sampled_from([0, 10, 300]))
    def extend(self, number: int, seconds: int) -> None:
        """A user wants a pool to live longer or not at all; what is in use refuses."""
        pools = self.sim.pools()
        pool = pools[number % len(pools)]
        with contextlib.suppress(SmxError):
            self.sim.call(lambda: self.sim.controller.desk.extend(pool.id, seconds))

    def _job(self, number: int) -> str:
        names = [*self.jobs]
        return names[-1 - number % len(names)]

    # The user's code

    @precondition(lambda self: self.sim.world.running())
    @rule(number=which, exit_code=st.sampled_from([0, 0, 0, 3]), writes=st.booleans(), one_host=st.booleans())
    def code_ends(self, number: int, exit_code: int, writes: bool, one_host: bool) -> None:
        """The code of a job ends, on all its hosts or on one."""
        running = self.sim.world.running()
        host, run = running[number % len(running)]
        end: dict[str, Any] = {"exit_code": exit_code, "artifacts": {"outputs/out/file": b"m"} if writes else {}}
        if one_host:
            self.sim.call(lambda: host.end_run(run, **end))
        else:
            self.sim.end_job(run.job, **end)

    @rule(seconds=st.sampled_from([0.2, 0.3, 1.0, 2.0, 7.0, 31.0, 90.0]))
    def time_passes(self, seconds: float) -> None:
        """Nobody does anything."""
        self.sim.pass_time(seconds)

    # The world

    @precondition(lambda self: self.sim.world.living())
    @rule(number=which)
    def a_host_dies(self, number: int) -> None:
        """A machine loses its power."""
        living = self.sim.world.living()
        self.sim.kill_host(living[number % len(living)])

    @precondition(lambda self: self.sim.world.living())
    @rule(number=which)
    def a_stream_breaks(self, number: int) -> None:
        """A connection ends; the host lives on."""
        living = self.sim.world.living()
        self.sim.break_streams(living[number % len(living)])

    @rule(
        kind=st.sampled_from(
            [
                fakes.Outage,
                fakes.NeverStarts,
                fakes.DiesDuringStart,
                lambda: fakes.RefusesTransiently(2),
                fakes.Refuses,
                fakes.ForgetsCluster,
                fakes.DropsStreams,
            ]
        )
    )
    def trouble_begins(self, kind: Any) -> None:
        """Something goes wrong at the engine until further notice."""
        self.sim.troubled_by(kind())

    @precondition(lambda self: self.alive() and not self.sim.engine.troubles)
    @rule(kind=st.sampled_from([fakes.Outage, fakes.NeverStarts, fakes.DropsStreams]))
    def a_job_meets_trouble(self, kind: Any) -> None:
        """Something goes wrong for as long as it takes to give up, and then no more."""
        self.sim.troubled_by(kind())
        job = self.sim.new_id()
        self.jobs[job] = {}
        self.sim.submit(job_id=job)
        self.sim.pass_time(self.sim.limits.launch_limit + 1)
        self.sim.troubled_by()

    @precondition(lambda self: self.sim.engine.troubles)
    @rule()
    def trouble_ends(self) -> None:
        """The engine is well again."""
        self.sim.troubled_by()

    # The controller

    @precondition(alive)
    @rule()
    def the_controller_is_killed(self) -> None:
        """And for now nobody takes over."""
        self.sim.kill_controller()

    @precondition(alive)
    @rule(count=st.integers(min_value=1, max_value=4), before=st.booleans())
    def the_controller_will_die_at_a_write(self, count: int, before: bool) -> None:
        """Between any two things that it does."""
        self.sim.kill_controller_at_write(count, before=before)

    @rule()
    def a_controller_starts(self) -> None:
        """On the records of the last one, which is killed if it lives."""
        self.sim.restart()

    @rule(seconds=st.sampled_from([-3_600.0, 86_400.0, -5.0]))
    def the_clock_is_set(self, seconds: float) -> None:
        """By somebody, or by the network; what was promised for some time is promised for that time."""
        self.sim.set_clock(seconds)

    @precondition(alive)
    @rule(seconds=st.sampled_from([0.5, 5.0, 40.0]), with_a_wish=st.booleans())
    def the_disk_is_full(self, seconds: float, with_a_wish: bool) -> None:
        """For a while; whoever wants a job meanwhile is refused, and nothing of it is there."""
        self.sim.fill_disk()
        if with_a_wish:
            job = self.sim.new_id()
            with contextlib.suppress(RecordsError):
                self.sim.submit(job_id=job)
            assert self.sim.controller.store.job(job) is None
        self.sim.pass_time(seconds)
        self.sim.make_room()

    # The promises

    @invariant()
    def no_error_was_swallowed(self) -> None:
        """Nothing of ours failed where nobody looks."""
        assert not self.sim.bugs, "\n".join(self.sim.bugs)

    @invariant()
    def code_runs_once(self) -> None:
        """The world counted: a job runs on one cluster, once on each host; a retry on another one, never beside it."""
        world = self.sim.world
        assert all(count == 1 for count in world.runs.values()), world.runs
        allowed = {job: 1 + wish.get("retries", 0) for job, wish in self._wishes().items()}
        assert all(len(clusters) <= allowed[job] for job, clusters in world.began.items()), world.began
        assert not world.overlaps
        assert all(count == 1 for count in self.sim.world.launches.values()), self.sim.world.launches

    @invariant()
    def arrays_are_whole_and_keep_their_limits(self) -> None:
        """All tasks of an array are known or none, and no more have hosts than it allows."""
        if not self.alive():
            return
        books = self.sim.controller.books
        for array, wish in self.arrays.items():
            tasks = self.sim.controller.store.arrays.tasks(array)
            assert len(tasks) in {0, len(wish.tasks)}
            placed = [job for job in self._tasks(array) if job in books.jobs and books.jobs[job].cluster]
            assert not wish.max_concurrent or len(placed) <= wish.max_concurrent

    @invariant()
    def order_is_kept(self) -> None:
        """No code began before every job that it comes after had completed."""
        if not self.alive():
            return
        wishes = self._wishes()
        for job in self.sim.world.began:
            before = [self.sim.controller.store.job(each) for each in wishes[job].get("after", ())]
            assert all(each is not None and each.status() is Status.COMPLETED for each in before)

    @invariant()
    def environments_are_built_once_at_a_time_for_somebody_and_before_they_are_used(self) -> None:
        """One build of each, none that no job waits for, and no host on one that is not there."""
        world = self.sim.world
        assert not world.builder.overlaps
        assert not world.unready
        if self.alive():
            live = self.sim.controller.books.jobs.values()
            wanted = [reuse.reuse_key(job.spec, "") for job in live if not job.cluster]
            names = {environment.identity(key.python, key.environment) for key in wanted if key.environment}
            assert set(world.builder.running) <= names

    @invariant()
    def nobody_lives_unknown(self) -> None:
        """Every living host is on the books, unless it is one that a dead controller had just launched."""
        if self.alive():
            known = self.sim.controller.books.clusters
            assert {host.cluster for host in self.sim.world.living()} <= known.keys()

    @invariant()
    def capacity_is_never_exceeded(self) -> None:
        """Neither in the world nor on paper."""
        limits = self.sim.limits
        assert self.sim.world.most_hosts <= limits.max_hosts
        used = capacity.taken(self.sim.controller.books.clusters.values(), limits)
        assert used.hosts <= limits.max_hosts
        assert used.cpus <= limits.cpus

    @invariant()
    def jobs_only_move_on(self) -> None:
        """What was told to the world never goes back, and a verdict never changes."""
        if not self.alive():
            return
        events, newest, reset = self.sim.controller.store.events_since(self.seen, 10_000)
        assert not reset
        self.seen = newest
        for event in events:
            self._hear(event)

    def _hear(self, event: Event) -> None:
        job = event.job
        if job is None:
            return
        before = self.steps.get(job.id)
        step, now = job.secondary_status, (job.attempt, job.secondary_status)
        assert before is None or before == now or is_news(before, now), f"{job.name} went from {before} to {now}"
        self.steps[job.id] = now
        if is_final(step):
            verdict = (step, job.message)
            assert self.verdicts.setdefault(job.id, verdict) == verdict
        if step is SecondaryStatus.STOPPED:
            reasons = {job.id, *self._wishes()[job.id].get("after", ())}
            assert reasons & self.asked_to_stop, f"{job.name} was stopped, and nobody had asked"
            self.asked_to_stop.add(job.id)  # it stops whoever comes after it

    @invariant()
    def jobs_and_clusters_point_at_each_other(self) -> None:
        """No cluster is busy for a job that is not on it."""
        if not self.alive():
            return
        books = self.sim.controller.books
        for cluster in books.clusters.values():
            if cluster.state in {ClusterState.PROVISIONING, ClusterState.IN_USE}:
                assert cluster.job in books.jobs, f"{cluster.id} is {cluster.state} for {cluster.job}"
                assert books.jobs[cluster.job].cluster == cluster.id
            else:
                assert not cluster.job

    # The end

    def teardown(self) -> None:
        """Let everything end, and see that nothing is left."""
        try:
            if not self.sim.bugs:
                self._everything_ends()
        finally:
            self.sim.close()

    def _everything_ends(self) -> None:
        self.sim.troubled_by()
        self.sim.controller.store.writes_left = None
        if not self.alive():
            self.sim.restart()
        for _ in range(PATIENCE):
            books = self.sim.controller.books
            if not books.jobs and not books.clusters:
                break
            self.sim.pass_time(10.0)
            for _, run in self.sim.world.running():
                self.sim.end_job(run.job)
        self.no_error_was_swallowed()
        self.code_runs_once()
        self.jobs_only_move_on()
        books = self.sim.controller.books
        assert not books.jobs, f"without a verdict: {[*books.jobs.values()]}"
        assert not books.clusters, f"still there: {[*books.clusters.values()]}"
        assert not self.sim.world.living(), "hosts that nobody knows of cost money"
        self._the_records_add_up()

    def _the_records_add_up(self) -> None:
        store, idle = self.sim.controller.store, dict[str, int]()
        found = [job for job_id in self._wishes() if (job := store.job(job_id)) is not None]
        for job in found:
            assert is_final(job.state)
            self._the_verdict_is_true(job)
            assert job.warm_pool is not None
            assert job.warm_pool.status in {WarmPoolStatus.REUSED, WarmPoolStatus.TERMINATED}, job.warm_pool
            seconds = job.warm_pool.resource_retained_billable_seconds
            idle[job.cluster] = idle.get(job.cluster, 0) + seconds
        for cluster_id, retained in idle.items():
            cluster = store.cluster(cluster_id) if cluster_id else None
            if cluster is not None:
                assert abs(retained - cluster.retained_seconds) <= cluster.jobs_served, (cluster, retained)

    def _the_verdict_is_true(self, job: Job) -> None:
        codes = [end.exit_code for end in job.hosts]
        if job.status() is Status.COMPLETED:
            assert codes
            assert set(codes) == {0}
            assert job.id in self.sim.world.began
        if job.status() is Status.FAILED:
            assert job.failure_reason
        if job.failure_reason.startswith(retries.OURS) and job.attempt <= job.spec.retries:
            began = transitions.attempt_began(job) or job.created_at
            assert retries.seconds_left(job) - ((job.ended_at or 0.0) - began) < 1, "it had a retry left"

"""Random histories: users, hosts, engines and controllers act at random, and all invariants hold.

The real core runs over a fake world in simulated time (:mod:`jupyter_smx.testing.simulation.simulation`).
The invariants (:mod:`jupyter_smx.testing.simulation.invariants`) are checked after every step. At the end every job
must have its outcome and the world must be empty.
"""

# ruff: noqa: D401 - the sentence of a rule describes an event

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from jupyter_smx.controller.api.array_facade import ArrayRequest
from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.spec.array import TaskOverrides
from jupyter_smx.model.status import DesiredState
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.invariants import Invariants

KEEP_ALIVES = (None, 0, 20, 120)

indices = st.integers(min_value=0, max_value=7)


class ControllerStateMachine(Invariants):
    """Every rule is an event that may happen at any time."""

    # Users

    @precondition(Invariants.is_alive)
    @rule(
        role=st.sampled_from(["", "other"]),
        hosts=st.integers(min_value=1, max_value=3),
        keep_alive=st.sampled_from(KEEP_ALIVES),
        honours_stop=st.booleans(),
        starts_after=st.sampled_from([0.0, 0.0, 3.0]),
        max_run=st.sampled_from([100, 86_400]),
        waits=st.sampled_from([None, None, 0, 50]),
        follows=st.sampled_from([(), (), (0,), (1,), (0, 2)]),
        retries=st.sampled_from([0, 0, 1, 3]),
        requirements=st.sampled_from([(), (), ("numpy",), ("Numpy ",), ("torch", "numpy"), ("gone",)]),
    )
    def submit(
        self, honours_stop: bool, starts_after: float, follows: tuple[int, ...], waits: int | None, **wish: Any
    ) -> None:
        """A user submits a job, maybe after others, maybe on spot, and then maybe with a maximum wait time."""
        wish |= {} if waits is None else {"spot": True, "max_wait": wish["max_run"] + waits if waits else 0}
        known = [each for each in self.jobs if self.sim.controller.store.job(each) is not None]
        wish["after"] = tuple(dict.fromkeys(known[-1 - number % len(known)] for number in follows if known))
        slots = self.sim.engine.slots()
        wish["hosts"] = wish["hosts"] if slots is None else min(wish["hosts"], slots)  # more would be refused
        job = self.sim.new_id()
        self.sim.world.scripts[job] = FakeScript(honours_stop=honours_stop, starts_after=starts_after)
        self.jobs[job] = wish
        self.sim.submit(job_id=job, **wish)

    @precondition(Invariants.is_alive)
    @rule(
        size=st.integers(min_value=1, max_value=4),
        max_concurrent=st.sampled_from([0, 0, 1, 2]),
        keep_alive=st.sampled_from([None, 0, 20]),
        retries=st.sampled_from([0, 2]),
    )
    def submit_array(self, size: int, max_concurrent: int, **wish: Any) -> None:
        """A user submits many jobs at once."""
        array = self.sim.new_id()
        tasks = tuple(TaskOverrides(label=str(index)) for index in range(size))
        self.arrays[array] = ArrayRequest(spec=self.sim.spec(**wish), tasks=tasks, max_concurrent=max_concurrent)
        self.sim.call(lambda: self.sim.controller.facade.arrays.submit(array, self.arrays[array]))

    @precondition(lambda self: self.is_alive() and self.arrays)
    @rule(number=indices, again=st.booleans())
    def stop_array(self, number: int, again: bool) -> None:
        """A user stops an array, or submits the same request once more."""
        array = [*self.arrays][-1 - number % len(self.arrays)]
        desk = self.sim.controller.facade.arrays
        if again:
            self.sim.call(lambda: desk.submit(array, self.arrays[array]))
            return
        self.stop_requests.update(self._tasks(array))
        with contextlib.suppress(SmxError):
            self.sim.call(lambda: desk.stop(desk.find(array)))

    @precondition(Invariants.is_alive)
    @rule(keep_alive=st.sampled_from(KEEP_ALIVES), dies_at=st.sampled_from([None, *range(1, 9)]), before=st.booleans())
    def a_job_comes_and_goes(self, keep_alive: int | None, dies_at: int | None, before: bool) -> None:
        """A short job runs, and the controller may be killed at any write."""
        if dies_at is not None:
            self.sim.kill_controller_at_write(dies_at, before=before)
        job = self.sim.new_id()
        self.jobs[job] = {"keep_alive": keep_alive}
        self.sim.submit(job_id=job, keep_alive=keep_alive)
        self.sim.pass_time(1.0)
        self.sim.end_job(job)

    @precondition(lambda self: self.is_alive() and self.jobs)
    @rule(number=indices)
    def resubmit(self, number: int) -> None:
        """A kernel that got no answer sends its request again."""
        job = self._job(number)
        self.sim.submit(job_id=job, **self.jobs[job])

    @precondition(lambda self: self.is_alive() and self.jobs)
    @rule(number=indices, abandon=st.booleans())
    def stop(self, number: int, abandon: bool) -> None:
        """A user stops a job, and waits for its hosts or not."""
        job = self._job(number)
        self.stop_requests.add(job)
        with contextlib.suppress(SmxError):
            # A job whose submission was lost with the controller does not exist.
            self.sim.stop(job, abandon=abandon)

    @precondition(lambda self: self.is_alive() and self.jobs)
    @rule(number=indices)
    def interrupt(self, number: int) -> None:
        """The market takes the hosts of a job away, if it may."""
        job = self._job(number)
        with contextlib.suppress(SmxError):
            before = self.sim.job(job)
            self.sim.call(lambda: self.sim.controller.facade.interrupt(job))
            # A controller that died meanwhile may have recorded it; a job under interruption is not counted twice.
            self.interruption_counts[job] += before.goal is DesiredState.RUN

    @rule(per_hour=st.sampled_from([0.0, 0.0, 60.0]), draw=st.sampled_from([0.001, 0.01, 0.5]))
    def the_market_moves(self, per_hour: float, draw: float) -> None:
        """From now on hosts of spot jobs are taken away at another rate."""
        self.sim.engine.interruptions_per_hour = per_hour
        self.has_random_interruptions |= per_hour > 0
        self.sim.world.random_draw = draw

    @precondition(lambda self: self.is_alive() and self.sim.pools())
    @rule(number=indices, seconds=st.sampled_from([0, 10, 300]))
    def extend(self, number: int, seconds: int) -> None:
        """A user extends or ends a pool; one that is in use refuses."""
        pools = self.sim.pools()
        pool = pools[number % len(pools)]
        with contextlib.suppress(SmxError):
            self.sim.call(lambda: self.sim.controller.facade.extend(pool.id, seconds))

    def _job(self, number: int) -> str:
        names = [*self.jobs]
        return names[-1 - number % len(names)]

    # The user's code

    @precondition(lambda self: self.sim.world.running_jobs())
    @rule(number=indices, exit_code=st.sampled_from([0, 0, 0, 3]), writes=st.booleans(), one_host=st.booleans())
    def code_ends(self, number: int, exit_code: int, writes: bool, one_host: bool) -> None:
        """The code of a job ends, on all its hosts or on one."""
        running = self.sim.world.running_jobs()
        host, run = running[number % len(running)]
        end: dict[str, Any] = {"exit_code": exit_code, "artifacts": {"outputs/out/file": b"m"} if writes else {}}
        if one_host:
            self.sim.call(lambda: host.end_run(run, **end))
        else:
            self.sim.end_job(run.job, **end)

    @rule(seconds=st.sampled_from([0.2, 0.3, 1.0, 2.0, 7.0, 31.0, 90.0]))
    def time_passes(self, seconds: float) -> None:
        """Only time passes."""
        self.sim.pass_time(seconds)

    # The world

    @precondition(lambda self: self.sim.world.live_hosts())
    @rule(number=indices)
    def a_host_crashes(self, number: int) -> None:
        """A machine loses its power."""
        living = self.sim.world.live_hosts()
        self.sim.kill_host(living[number % len(living)])

    @precondition(lambda self: self.sim.world.live_hosts())
    @rule(number=indices, grace=st.sampled_from([3.0, 30.0]))
    def a_machine_is_taken_away(self, number: int, grace: float) -> None:
        """Its engine says so some seconds before; a spot job begins again then, and another one has failed."""
        living = self.sim.world.live_hosts()
        host = living[number % len(living)]
        run = host.running()
        self.interruption_counts.update([] if run is None or host.is_noticed else [run.job])
        self.sim.give_notice(host, grace)

    @precondition(lambda self: self.sim.world.live_hosts())
    @rule(number=indices)
    def a_stream_breaks(self, number: int) -> None:
        """A connection ends; the host lives on."""
        living = self.sim.world.live_hosts()
        self.sim.break_streams(living[number % len(living)])

    @rule(
        kind=st.sampled_from(
            [
                fake_engine.Outage,
                fake_engine.WaitsAtEngine,
                fake_engine.AnswerUnknown,
                fake_engine.Full,
                lambda: fake_engine.Full(1),
                lambda: fake_engine.Full(2, is_known=True),
                lambda: fake_engine.AnswerUnknown(2, seconds=None),
                lambda: fake_engine.AnswerUnknown(3, seconds=40.0),
                fake_engine.NeverStarts,
                fake_engine.CrashesDuringStart,
                lambda: fake_engine.RefusesTransiently(2),
                fake_engine.Refuses,
                fake_engine.ReportsGone,
                fake_engine.DropsStreams,
            ]
        )
    )
    def a_fault_begins(self, kind: Any) -> None:
        """Something goes wrong at the engine until further notice."""
        self.sim.set_faults(kind())

    @precondition(lambda self: self.is_alive() and not self.sim.engine.faults)
    @rule(
        kind=st.sampled_from(
            [fake_engine.Outage, fake_engine.WaitsAtEngine, fake_engine.NeverStarts, fake_engine.DropsStreams]
        )
    )
    def a_job_runs_into_a_fault(self, kind: Any) -> None:
        """Something goes wrong for as long as it takes to give up, and then no more."""
        self.sim.set_faults(kind())
        job = self.sim.new_id()
        self.jobs[job] = {}
        self.sim.submit(job_id=job)
        self.sim.pass_time(self.sim.limits.launch_limit + 1)
        self.sim.set_faults()

    @precondition(lambda self: self.sim.engine.faults)
    @rule()
    def faults_end(self) -> None:
        """The engine is well again."""
        self.sim.set_faults()

    # The controller

    @precondition(Invariants.is_alive)
    @rule()
    def the_controller_is_killed(self) -> None:
        """For now, no other one takes over."""
        self.sim.kill_controller()

    @precondition(Invariants.is_alive)
    @rule(count=st.integers(min_value=1, max_value=4), before=st.booleans())
    def the_controller_will_be_killed_at_a_write(self, count: int, before: bool) -> None:
        """It is killed between any two of its actions."""
        self.sim.kill_controller_at_write(count, before=before)

    @rule()
    def a_controller_starts(self) -> None:
        """On the records of the last one, which is killed if it lives."""
        self.sim.restart()

    @rule(seconds=st.sampled_from([-3_600.0, 86_400.0, -5.0]))
    def the_clock_is_set(self, seconds: float) -> None:
        """A user or the network sets it; durations that were granted stay the same."""
        self.sim.set_clock(seconds)

    @rule(seconds=st.sampled_from([-3_600.0, -20.0, 0.0, 20.0, 3_600.0]))
    def the_clock_of_the_hosts_is_set(self, seconds: float) -> None:
        """Their machine is another one, and its clock shows something else than the controller's."""
        self.sim.world.clock_ahead = seconds

    @precondition(Invariants.is_alive)
    @rule(seconds=st.sampled_from([0.5, 5.0, 40.0]), with_a_wish=st.booleans())
    def the_disk_is_full(self, seconds: float, with_a_wish: bool) -> None:
        """It is full for a while; a job submitted meanwhile is refused and leaves nothing behind."""
        self.sim.fill_disk()
        if with_a_wish:
            job = self.sim.new_id()
            with contextlib.suppress(RecordsError):
                self.sim.submit(job_id=job)
            assert self.sim.controller.store.job(job) is None
        self.sim.pass_time(seconds)
        self.sim.free_disk()

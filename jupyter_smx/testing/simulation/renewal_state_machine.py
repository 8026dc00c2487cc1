"""Random histories of pools whose allocations end, and which go on in the next ones."""

# ruff: noqa: D401 - the sentence of a rule describes an event

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import ClusterState, Renewal
from jupyter_smx.model.status import is_final
from jupyter_smx.policy.lifecycle import renewal
from jupyter_smx.testing.fakes.fake_engine import FakeEngine
from jupyter_smx.testing.simulation.state_machine import ControllerStateMachine

if TYPE_CHECKING:
    from jupyter_smx.engines.base import Capabilities
    from jupyter_smx.model.records.cluster import Cluster, Handle
    from jupyter_smx.testing.fakes.fake_world import FakeWorld

ALLOCATION = 60.0
LEAD = 40.0


class FakeRenewedEngine(FakeEngine):
    """Gives each cluster an allocation that ends a minute after its launch, and renews it."""

    capabilities: Capabilities = replace(FakeEngine.capabilities, bounded_by_machine=False)

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__(world, launch_seconds=launch_seconds, has_remains=has_remains)
        self.ends: dict[str, float] = {}

    def _handle(self, cluster: str, count: int) -> Handle:
        end = self.ends.setdefault(cluster, self.world.clock() + ALLOCATION)
        plan = Renewal(at=end - LEAD, seconds=ALLOCATION)
        return replace(super()._handle(cluster, count), allocation_ends_at=end, renewal=plan)


class RenewalStateMachine(ControllerStateMachine):
    """All events, and ends of allocations."""

    engine = FakeRenewedEngine

    @precondition(ControllerStateMachine.is_alive)
    @rule(seconds=st.sampled_from([0.0, 25.0]))
    def a_job_leaves_a_pool(self, seconds: float) -> None:
        """A user runs a job on new or warm hosts, and keeps them."""
        job = self.sim.new_id()
        self.jobs[job] = {"keep_alive": 120}
        self.sim.submit(job_id=job, keep_alive=120)
        self.sim.pass_time(2.0)
        if any(run.job == job for _, run in self.sim.world.running_jobs()):
            self.sim.end_job(job)
        self.sim.pass_time(seconds)

    @rule(seconds=st.sampled_from([0.0, 20.0, 45.0]))
    def allocations_end(self, seconds: float) -> None:
        """The platform ends the hosts whose time is over."""
        self.sim.pass_time(seconds)
        engine = self.sim.engine
        assert isinstance(engine, FakeRenewedEngine)
        for host in self.sim.world.live_hosts():
            if engine.ends.get(host.cluster, 0.0) <= self.sim.world.clock():
                self.sim.kill_host(host)

    @precondition(ControllerStateMachine.is_alive)
    @rule(seconds=st.sampled_from([0, 20, 300]))
    def a_user_changes_the_keep_alive_of_running_jobs(self, seconds: int) -> None:
        """A job runs until the next allocation is requested; successors follow at the next tick."""
        job = self.sim.new_id()
        self.jobs[job] = {"keep_alive": 120}
        self.sim.submit(job_id=job, keep_alive=120)
        self.sim.pass_time(25.0)
        if not self.is_alive():
            return
        for each in {run.job for _, run in self.sim.world.running_jobs()} & {*self.sim.controller.live_state.jobs}:
            self.sim.call(partial(self.sim.controller.facade.set_keep_alive, each, seconds))
        self.sim.pass_time(2.0)
        if self.is_alive() and not self.sim.controller.store.is_disk_full:
            self._successors_end_with_their_pools()

    def _successors_end_with_their_pools(self) -> None:
        books = self.sim.controller.live_state
        for successor in self._successors():
            pool = books.clusters.get(successor.renewal_of)
            can_follow = not successor.hosts or self.sim.controller.agents.is_open(successor.id)
            if pool is None or pool.state is ClusterState.RELEASING or not can_follow:
                continue
            until = renewal.kept_until(pool, books.jobs.get(pool.job))
            assert until is not None
            assert successor.expires_at is not None
            assert successor.expires_at <= until

    def _successors(self) -> list[Cluster]:
        """Return the clusters that wait to continue a pool, and that no job has had."""
        books = self.sim.controller.live_state
        waits = [each for each in books.clusters.values() if renewal.is_without_job(each) and not each.jobs_served]
        states = (ClusterState.PROVISIONING, ClusterState.AVAILABLE)
        return [each for each in waits if each.state in states and not renewal.is_unwanted(each, books.clock())]

    @precondition(ControllerStateMachine.is_alive)
    @invariant()
    def a_pool_has_one_successor_without_a_job(self) -> None:
        """No second one waits beside it, none has a key of its own, and none outlives a job that kept no hosts."""
        books, waits = self.sim.controller.live_state, self._successors()
        assert len(waits) == len({each.renewal_of for each in waits})
        for each in waits:
            before = books.clusters.get(each.renewal_of) or books.store.cluster(each.renewal_of)
            assert before is not None
            assert before.key == each.key
            assert before.reason != "The job asked for no keep-alive."

    @invariant()
    def capacity_is_never_exceeded(self) -> None:
        """The hosts are not of this machine."""

    def _the_records_add_up(self) -> None:
        # Idle time of a successor before its first job is in its own record only.
        for job_id in self._requests():
            job = self.sim.controller.store.job(job_id)
            if job is not None:
                assert is_final(job.state)
                self._the_outcome_is_true(job)

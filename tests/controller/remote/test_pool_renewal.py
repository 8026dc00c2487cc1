"""A pool goes on in the next allocation: requested before the present one ends, handed over, taken by jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceInUseError, ResourceLimitError
from jupyter_smx.model.records.cluster import Cluster, ClusterState, QueueStatus, Renewal
from jupyter_smx.testing.fakes.fake_engine import PausedHosts, Refuses, RefusesTransiently, WaitsAtEngine
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOCATION = 1_500.0
LEAD = 300.0
KEEP = 3_000


@pytest.fixture
def remote() -> Iterator[Simulation]:
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        allocate(simulation)
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def engine_of(sim: Simulation) -> FakeRemoteEngine:
    assert isinstance(sim.engine, FakeRemoteEngine)
    return sim.engine


def allocate(sim: Simulation) -> None:
    """Let the next hosts be those of an allocation that begins now."""
    end = sim.world.clock() + ALLOCATION
    engine_of(sim).allocation_ends_at = end
    engine_of(sim).renewal = Renewal(at=end - LEAD, seconds=ALLOCATION)


def until_it_is_due(sim: Simulation) -> Cluster:
    """Let a job leave a pool, and time pass until the next allocation is requested; give the pool."""
    sim.run_to_end(keep_alive=KEEP)
    (pool,) = sim.pools()
    sim.pass_time(ALLOCATION - LEAD - 10.0)
    assert sim.pools() == [pool], "nothing is requested before"
    allocate(sim)
    sim.pass_time(12.0)
    return pool


def end_allocation(sim: Simulation, pool: Cluster) -> None:
    """Let the platform end the hosts of a pool."""
    for host in sim.world.cluster_hosts(pool.id):
        sim.kill_host(host)
    sim.pass_time(10.0)


def test_the_next_allocation_continues_the_pool_with_the_rest_of_its_keep_alive(remote: Simulation) -> None:
    old = until_it_is_due(remote)
    (pool,) = remote.pools(ClusterState.AVAILABLE)
    assert (pool.renewal_of, pool.key, pool.expires_at) == (old.id, old.key, old.expires_at)
    assert remote.pool(old.id).state is ClusterState.TERMINATED
    assert pool.name() in remote.pool(old.id).reason
    asked = engine_of(remote).requests[-1]
    assert (asked.renewal_of, asked.cluster) == (old.id, pool.id)
    job = remote.submit(keep_alive=KEEP)
    assert (remote.start_reason(job).start, remote.job(job).cluster) == ("warm", pool.id)


def test_hosts_that_continue_a_pool_stay_as_long_as_it_is_kept(remote: Simulation) -> None:
    until_it_is_due(remote)
    remote.pass_time(200.0)
    (pool,) = remote.pools()
    assert len(remote.world.live_hosts()) == 1, "an agent without a job ends after two minutes by itself"
    assert pool.expires_at is not None
    engine_of(remote).renewal = None
    remote.pass_time(pool.expires_at - remote.world.clock() + 5.0)
    assert remote.pools() == []
    assert remote.world.live_hosts() == []


def test_a_pool_whose_keep_alive_ends_before_its_allocation_is_not_renewed(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=600)
    remote.pass_time(ALLOCATION)
    assert len(engine_of(remote).requests) == 1
    assert remote.pools() == []


def test_what_waits_in_the_queue_outlives_the_pool_and_a_job_takes_it_there(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine(QueueStatus("Priority")))
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    allocate(remote)
    assert [cluster.state for cluster in remote.pools()] == [ClusterState.AVAILABLE, ClusterState.PROVISIONING]
    remote.restart()
    remote.pass_time(5.0)
    end_allocation(remote, old)
    assert remote.pool(old.id).reason == "The allocation of its hosts has ended."
    (waits,) = remote.pools()
    job = remote.submit(keep_alive=KEEP)
    assert remote.job(job).cluster == waits.id
    assert "Priority" in remote.job(job).transitions[-1].status_message
    assert waits.name() in remote.start_reason(job).sentence
    other = remote.submit(keep_alive=KEEP)
    assert remote.job(other).cluster != waits.id
    remote.stop(other)
    remote.set_faults()
    remote.pass_time(10.0)
    remote.end_job(job)
    assert remote.job(job).state.value == "Completed"
    assert {host.cluster for host in remote.world.live_hosts()} == {waits.id}


def test_a_job_that_is_longer_than_what_waits_gets_an_allocation_of_its_own(remote: Simulation) -> None:
    plan = engine_of(remote).renewal
    assert plan is not None
    engine_of(remote).renewal = replace(plan, max_run=600.0)
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine(QueueStatus("Priority")))
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    end_allocation(remote, old)
    (waits,) = remote.pools()
    long = remote.submit(keep_alive=KEEP, max_run=601)
    assert remote.job(long).cluster not in ("", waits.id)
    assert "has time for a job 10 min" in remote.start_reason(long).sentence
    short = remote.submit(keep_alive=KEEP, max_run=600)
    assert remote.job(short).cluster == waits.id


def test_a_job_that_runs_at_the_handover_keeps_its_hosts_and_the_next_one_takes_the_new_ones(
    remote: Simulation,
) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    job = remote.submit(keep_alive=KEEP)
    remote.pass_time(ALLOCATION - LEAD - 5.0)
    allocate(remote)
    remote.pass_time(10.0)
    assert remote.job(job).cluster == old.id
    states = {cluster.id: cluster.state for cluster in remote.pools()}
    assert states.pop(old.id) is ClusterState.IN_USE
    assert [*states.values()] == [ClusterState.AVAILABLE]
    remote.end_job(job)
    remote.pass_time(5.0)
    (pool,) = remote.pools()
    assert [pool.id] == [*states]
    assert old.handle is not None
    assert pool.expires_at == pytest.approx((old.handle.allocation_ends_at or 0) + ALLOCATION, abs=2)


def a_job_at_the_renewal(sim: Simulation, *, waits: bool = False) -> tuple[str, Cluster, Cluster]:
    """Let a job run on a pool whose next allocation was requested; give the job, the pool, and its successor."""
    sim.run_to_end(keep_alive=KEEP)
    (old,) = sim.pools()
    job = sim.submit(keep_alive=KEEP)
    sim.pass_time(ALLOCATION - LEAD - 5.0)
    allocate(sim)
    if waits:
        sim.set_faults(WaitsAtEngine())
    sim.pass_time(10.0)
    (successor,) = [each for each in sim.pools() if each.id != old.id]
    assert successor.state is (ClusterState.PROVISIONING if waits else ClusterState.AVAILABLE)
    return job, sim.pool(old.id), successor


def set_keep_alive(sim: Simulation, job: str, seconds: int) -> None:
    sim.call(lambda: sim.controller.facade.set_keep_alive(job, seconds))


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_job_that_gives_up_its_keep_alive_ends_both_pools(remote: Simulation, waits: bool, seconds: float) -> None:
    job, _, successor = a_job_at_the_renewal(remote, waits=waits)
    set_keep_alive(remote, job, 0)
    remote.pass_time(seconds)
    remote.end_job(job)
    remote.pass_time(5.0)
    assert remote.pools() == []
    assert remote.world.live_hosts() == []
    assert remote.pool(successor.id).reason == "The pool that it continues is not kept any longer."


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_later_end_reaches_the_agents_of_a_ready_successor_and_its_record(remote: Simulation, is_idle: bool) -> None:
    remote.run_to_end(keep_alive=400)
    (old,) = remote.pools()
    job = remote.submit(keep_alive=400)
    remote.pass_time(ALLOCATION - LEAD - 5.0)
    allocate(remote)
    remote.pass_time(10.0)
    (successor,) = remote.pools(ClusterState.AVAILABLE)
    before = successor.expires_at or 0.0
    set_keep_alive(remote, job, 1_400)
    if not is_idle:
        remote.pass_time(2.0)
        assert remote.pool(successor.id).expires_at == pytest.approx(before + 1_000)
    remote.end_job(job)
    remote.pass_time(2.0)
    (pool,) = remote.pools()
    assert (pool.id, pool.keep_alive) == (successor.id, 1_400)
    assert pool.expires_at is not None
    assert pool.expires_at > before
    remote.pass_time(before + 30.0 - remote.world.clock())
    assert len(remote.world.live_hosts()) == 1
    remote.pass_time(pool.expires_at - remote.world.clock() + 5.0)
    assert (remote.pools(), remote.world.live_hosts()) == ([], [])
    assert remote.pool(old.id).state is ClusterState.TERMINATED


def test_a_pool_is_handed_over_when_the_agents_of_its_successor_answer(remote: Simulation) -> None:
    job, old, successor = a_job_at_the_renewal(remote)
    (host,) = remote.world.cluster_hosts(successor.id)
    remote.set_faults(PausedHosts())
    remote.break_streams(host)
    remote.end_job(job)
    remote.pass_time(5.0)
    assert {pool.id for pool in remote.pools()} == {old.id, successor.id}
    remote.set_faults()
    remote.pass_time(30.0)
    assert [pool.id for pool in remote.pools()] == [successor.id]


def test_a_pool_and_what_continues_it_count_once_for_the_quota() -> None:
    limits = replace(LIMITS, warm_pool_quota={"local": 1})
    with Simulation(limits=limits, engine=FakeRemoteEngine) as sim:
        allocate(sim)
        job, old, successor = a_job_at_the_renewal(sim)
        sim.end_job(job)
        sim.pass_time(5.0)
        assert [pool.id for pool in sim.pools()] == [successor.id]
        assert successor.name() in sim.pool(old.id).reason
        assert not sim.bugs


def test_a_pool_that_is_evicted_is_not_continued(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine())
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    remote.call(lambda: remote.controller.live_state.release_pool(remote.pool(old.id), "Released early."))
    remote.pass_time(5.0)
    assert remote.pools() == []


def test_a_pool_whose_machine_is_taken_away_is_continued(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine())
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    (host,) = remote.world.cluster_hosts(old.id)
    remote.give_notice(host, 5.0)
    remote.pass_time(10.0)
    (waits,) = remote.pools()
    assert waits.renewal_of == old.id


def test_an_extension_moves_the_end_of_what_waits(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine())
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    left = remote.call(lambda: remote.controller.facade.extend(old.id, 1_000))
    remote.pass_time(2.0)
    (waits,) = remote.pools(ClusterState.PROVISIONING)
    assert waits.expires_at == left.expires_at
    remote.call(lambda: remote.controller.facade.extend(old.id, 100))
    remote.pass_time(5.0)
    assert remote.pools(ClusterState.PROVISIONING) == []
    assert remote.pool(waits.id).reason == "The pool that it continues is not kept any longer."


def test_a_release_by_the_user_withdraws_what_waits(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine())
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    remote.call(lambda: remote.controller.facade.release(old.id))
    remote.pass_time(5.0)
    assert remote.pools() == []


def test_what_waits_can_be_released_alone(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.set_faults(WaitsAtEngine())
    remote.pass_time(ALLOCATION - LEAD + 5.0)
    (waits,) = remote.pools(ClusterState.PROVISIONING)
    (row,) = [row for row in remote.call(remote.controller.facade.pools) if row.id == waits.id]
    assert row.reason == (
        f"Continues pool {old.name()}, whose allocation ends. Waiting at the engine fake: Resources, position 3."
    )
    assert row.expires_at is None
    remote.call(lambda: remote.controller.facade.release(waits.id))
    remote.pass_time(60.0)
    assert [cluster.id for cluster in remote.pools()] == [old.id]
    job = remote.submit(keep_alive=KEEP)
    with pytest.raises(ResourceInUseError):
        remote.call(lambda: remote.controller.facade.release(remote.job(job).cluster))


def test_a_refused_renewal_is_noted_on_the_pool_and_not_repeated(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    remote.set_faults(Refuses())
    remote.pass_time(ALLOCATION - LEAD + 60.0)
    (pool,) = remote.pools()
    assert pool.reason.startswith("Its allocation is not renewed: ")
    assert len(engine_of(remote).requests) == 2
    assert pool.handle is not None
    left = (pool.handle.allocation_ends_at or 0.0) - remote.world.clock()
    with pytest.raises(ResourceLimitError, match="that are left"):
        remote.call(lambda: remote.controller.facade.extend(pool.id, int(left) + 100))
    remote.call(lambda: remote.controller.facade.extend(pool.id, int(left) - 10))


def successors(sim: Simulation) -> list[str]:
    """Give the clusters that were requested to continue a pool."""
    return [*dict.fromkeys(asked.cluster for asked in engine_of(sim).requests if asked.renewal_of)]


def test_a_stop_of_a_job_that_joined_what_waits_does_not_end_the_renewal(remote: Simulation) -> None:
    _, old, waits = a_job_at_the_renewal(remote, waits=True)
    joined = remote.submit(keep_alive=KEEP)
    assert remote.job(joined).cluster == waits.id
    remote.stop(joined)
    remote.pass_time(30.0)
    assert remote.pool(waits.id).state is ClusterState.TERMINATED
    assert len(successors(remote)) == 1
    remote.pass_time(40.0)
    (again,) = remote.pools(ClusterState.PROVISIONING)
    assert (again.renewal_of, again.id in successors(remote)) == (old.id, True)


def test_a_launch_that_fails_for_a_while_is_repeated(remote: Simulation) -> None:
    remote.run_to_end(keep_alive=KEEP)
    (old,) = remote.pools()
    remote.pass_time(ALLOCATION - LEAD - 10.0)
    allocate(remote)
    remote.set_faults(RefusesTransiently(2))
    remote.pass_time(80.0)
    assert (len(successors(remote)), len(remote.pools())) == (2, 1)
    remote.pass_time(70.0)
    (pool,) = remote.pools(ClusterState.AVAILABLE)
    assert (pool.renewal_of, len(successors(remote))) == (old.id, 3)


def test_a_ready_successor_that_the_user_releases_is_not_requested_again(remote: Simulation) -> None:
    job, old, successor = a_job_at_the_renewal(remote)
    remote.call(lambda: remote.controller.facade.release(successor.id))
    remote.pass_time(100.0)
    assert [pool.id for pool in remote.pools()] == [old.id]
    assert len(successors(remote)) == 1
    remote.end_job(job)


@pytest.mark.parametrize("write", range(1, 7))
@pytest.mark.parametrize("before", [True, False])
def test_a_controller_that_is_killed_at_any_write_loses_no_pool_and_requests_one_successor(
    remote: Simulation, write: int, before: bool
) -> None:
    remote.run_to_end(keep_alive=KEEP)
    remote.pass_time(ALLOCATION - LEAD - 10.0)
    allocate(remote)
    remote.kill_controller_at_write(write, before=before)
    remote.pass_time(12.0)
    remote.restart()
    remote.pass_time(15.0)
    (pool,) = remote.pools()
    assert (pool.state, bool(pool.renewal_of)) == (ClusterState.AVAILABLE, True)
    assert len(remote.world.launches) == 2
    assert successors(remote) == [pool.id]
    assert len(remote.world.live_hosts()) == 1

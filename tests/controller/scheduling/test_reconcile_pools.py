"""Warm pools: every row of the contract of SageMaker's managed warm pools, on the job's records and in the world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import RefusedError, ResourceInUseError, ResourceLimitError, ResourceNotFoundError
from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import WarmPool

START = 0.6
"""Seconds in which a fake host comes up."""


def pool_status(sim: Simulation, job: str) -> tuple[str, str, int]:
    """Return status, successor and retained seconds on a job's record."""
    pool: WarmPool | None = sim.job(job).warm_pool
    assert pool is not None
    return pool.status.value, pool.reused_by_job, pool.resource_retained_billable_seconds


def test_the_life_of_a_pool_is_told_on_the_records_of_its_jobs(sim: Simulation) -> None:
    first = sim.run_to_end(keep_alive=600)
    assert pool_status(sim, first) == ("Available", "", 0)
    assert sim.job(first).status() is Status.COMPLETED
    sim.pass_time(100)
    second = sim.submit(keep_alive=60)
    assert pool_status(sim, first) == ("Reused", sim.job(second).name, 100)
    assert pool_status(sim, second) == ("InUse", "", 0)
    assert sim.start_reason(second).start == "warm"
    sim.pass_time(7)
    sim.end_job(second)
    assert pool_status(sim, second) == ("Available", "", 0)
    sim.pass_time(59)
    assert pool_status(sim, second) == ("Available", "", 0)
    sim.pass_time(3)
    assert pool_status(sim, second)[0] == "Terminated"
    assert pool_status(sim, second)[2] in range(60, 63)
    assert pool_status(sim, first) == ("Reused", sim.job(second).name, 100)
    assert sim.pools() == []
    assert sim.world.live_hosts() == []


@pytest.mark.parametrize(("before", "last"), [(0, 0), (600, 0), (0, None), (None, None)])
def test_a_pool_ends_with_a_job_of_keep_alive_0_and_new_hosts_with_one_of_none(
    sim: Simulation, before: int | None, last: int | None
) -> None:
    if before:
        sim.run_to_end(keep_alive=before)
    last = sim.run_to_end(keep_alive=last)
    assert pool_status(sim, last)[0] == "Terminated"
    assert sim.pools() == []
    assert sim.world.live_hosts() == []
    assert sim.pool(sim.job(last).cluster).state is ClusterState.TERMINATED


@pytest.mark.parametrize("end", [{"exit_code": 3}, {"exit_code": None, "cause": "refused"}])
def test_a_pool_is_kept_when_the_algorithm_or_the_wish_was_wrong(sim: Simulation, end: dict[str, Any]) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.end_job(job, **end)
    assert sim.job(job).status() is Status.FAILED
    assert pool_status(sim, job)[0] == "Available"
    assert sim.start_reason(sim.submit(keep_alive=600)).start == "warm"


def test_a_pool_is_kept_when_the_job_was_stopped_after_the_launch(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.stop(job)
    assert sim.job(job).state is SecondaryStatus.STOPPED
    assert pool_status(sim, job)[0] == "Available"


def test_a_job_that_is_stopped_while_its_hosts_come_up_never_runs_and_leaves_them_warm(sim: Simulation) -> None:
    job = sim.submit(keep_alive=30)
    sim.stop(job)
    assert sim.job(job).state is SecondaryStatus.STOPPING
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.STOPPED
    assert sim.world.start_counts == {}
    assert pool_status(sim, job)[0] == "Available"
    assert sim.start_reason(sim.submit()).start == "warm"


def test_a_job_that_is_stopped_in_the_queue_costs_nothing(sim: Simulation) -> None:
    sim.submit(hosts=2)
    waiting = sim.submit()
    sim.stop(waiting)
    assert sim.job(waiting).state is SecondaryStatus.STOPPED
    assert sim.job(waiting).cluster == ""
    assert pool_status(sim, waiting)[0] == "Terminated"


def test_a_job_that_ignores_the_stop_is_killed_after_the_grace(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    sim.stop(job)
    assert sim.job(job).state is SecondaryStatus.STOPPING
    sim.pass_time(LIMITS.grace + 0.1)
    assert sim.job(job).state is SecondaryStatus.STOPPED


def test_a_job_that_takes_too_long_is_stopped_and_did_not_fail(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600, max_run=50)
    sim.pass_time(START + 51)
    assert sim.job(job).state is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert sim.job(job).status() is Status.STOPPED
    assert pool_status(sim, job)[0] == "Available"


def test_hosts_that_were_lost_are_not_kept(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600, hosts=2)
    sim.pass_time(START)
    sim.kill_host(sim.hosts(job)[1])
    sim.pass_time(1)
    assert sim.job(job).status() is Status.FAILED
    assert sim.job(job).failure_reason.startswith("InternalServerError: ")
    assert pool_status(sim, job)[0] == "Terminated"
    assert sim.world.live_hosts() == []


def test_without_quota_the_job_runs_and_its_pool_is_not_kept_and_says_why() -> None:
    with Simulation(limits=replace(LIMITS, warm_pool_quota={"local": 1})) as sim:
        kept = sim.run_to_end(keep_alive=600, role="a")
        dropped = sim.run_to_end(keep_alive=600, role="b")
        assert pool_status(sim, kept)[0] == "Available"
        assert pool_status(sim, dropped)[0] == "Terminated"
        pool = sim.job(dropped).warm_pool
        assert pool is not None
        assert "quota" in pool.reason
        planned = sim.call(lambda: sim.controller.facade.plan(sim.spec(keep_alive=600, role="c")))
        assert any("quota" in note for note in planned["why"]["notes"])


@pytest.mark.parametrize(
    ("change", "field"),
    [({"role": "b"}, "role"), ({"hosts": 2}, "instance count"), ({"python": "/other/python"}, "python")],
)
def test_a_job_that_differs_gets_hosts_of_its_own_and_is_told_the_field(
    sim: Simulation, change: dict[str, Any], field: str
) -> None:
    sim.run_to_end(keep_alive=600)
    job = sim.submit(**change)
    why = sim.start_reason(job)
    assert why.start == "cold"
    assert [difference.field for difference in why.differences] == [field]
    assert field in why.sentence


@pytest.mark.parametrize(
    "change",
    [
        {"source": "other"},
        {"hyperparameters": {"a": "1"}},
        {"environment": {"A": "1"}},
        {"base_name": "other"},
        {"kind": "process"},
        {"max_run": 10},
    ],
)
def test_code_parameters_and_data_are_no_criteria(sim: Simulation, change: dict[str, Any]) -> None:
    sim.run_to_end(keep_alive=600)
    assert sim.start_reason(sim.submit(**change)).start == "warm"


def test_another_users_pool_is_not_taken(sim: Simulation) -> None:
    """Bug 13 of the catalogue: the key is compared, not only the instance types and counts."""
    first = sim.run_to_end(keep_alive=600)
    pool = sim.pool(sim.job(first).cluster)
    stranger = replace(pool, key=replace(pool.key, user="somebody-else"))
    sim.call(lambda: sim.controller.live_state.save(clusters=[stranger]))
    job = sim.submit()
    why = sim.start_reason(job)
    assert [difference.field for difference in why.differences] == ["user"]


def test_a_second_job_while_the_pool_is_busy_gets_fresh_hosts_and_there_are_two_pools_then(sim: Simulation) -> None:
    first, second = sim.submit(keep_alive=600), sim.submit(keep_alive=600)
    sim.pass_time(START)
    assert sim.start_reason(second).start == "cold"
    sim.end_job(first)
    sim.end_job(second)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 2


def test_a_job_without_keep_alive_leaves_the_pool_as_it_was_and_its_time_begins_again(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600)
    sim.pass_time(500)
    visitor = sim.run_to_end()
    assert pool_status(sim, visitor)[0] == "Available"
    sim.pass_time(500)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1, "the agent keeps its host as long as the controller"
    stopped = sim.submit()
    sim.call(lambda: sim.controller.facade.stop(stopped))
    sim.pass_time(500)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1
    sim.pass_time(200)
    assert sim.pools() == []
    assert sim.world.live_hosts() == []


def test_extend_sets_the_keep_alive_that_a_job_without_one_leaves(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=60)
    sim.call(lambda: sim.controller.facade.extend(sim.pools()[0].id, 900))
    sim.run_to_end()
    sim.pass_time(800)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1
    sim.pass_time(200)
    assert sim.pools() == []


def test_the_keep_alive_is_each_jobs_own(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=3_600)
    sim.run_to_end(keep_alive=30)
    sim.pass_time(33)
    assert sim.pools() == []


def test_a_pool_can_be_extended_while_it_is_idle_on_paper_and_on_its_hosts(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=70)
    pool = sim.pools()[0]
    sim.pass_time(60)
    sim.call(lambda: sim.controller.facade.extend(pool.name(), 300))
    sim.pass_time(290)
    assert pool_status(sim, job)[0] == "Available"
    sim.pass_time(13)
    assert pool_status(sim, job)[0] == "Terminated"
    assert pool_status(sim, job)[2] in range(359, 364)


def test_an_engine_that_cannot_keep_hosts_for_longer_says_so_and_may_keep_them_for_less(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(sim.engine), "capabilities", replace(sim.engine.capabilities, extend=False))
    sim.run_to_end(keep_alive=70)
    (pool,) = sim.pools()
    with pytest.raises(RefusedError, match="The engine fake sets the lifetime"):
        sim.call(lambda: sim.controller.facade.extend(pool.id, 300))
    assert sim.pool(pool.id).expires_at == pool.expires_at
    sim.call(lambda: sim.controller.facade.extend(pool.id, 10))
    sim.pass_time(12)
    assert sim.pools() == []


def test_a_keep_alive_that_is_set_while_the_job_runs_counts_after_it(sim: Simulation) -> None:
    job = sim.submit(keep_alive=60)
    sim.pass_time(START)
    sim.call(lambda: sim.controller.facade.set_keep_alive(job, 900))
    assert (sim.job(job).spec.keep_alive, sim.job(job).keep_alive) == (60, 900)
    assert sim.job(job).last_modified_at() == sim.world.clock()
    sim.end_job(job)
    (pool,) = sim.pools()
    assert (pool.keep_alive, pool.expires_at) == (900, sim.world.clock() + 900)
    sim.pass_time(100)
    sim.call(lambda: sim.controller.facade.set_keep_alive(job, 300))
    assert sim.pools()[0].expires_at == sim.world.clock() + 300
    changed = sim.job(job).last_modified_at()
    assert changed == sim.world.clock()
    assert sim.world.live_hosts()
    sim.pass_time(301)
    assert pool_status(sim, job)[0] == "Terminated"
    assert (sim.job(job).last_modified_at(), sim.job(job).keep_alive) == (changed, 300)


def test_a_keep_alive_that_is_set_to_zero_while_the_job_runs_keeps_no_hosts(sim: Simulation) -> None:
    job = sim.submit(keep_alive=60)
    sim.pass_time(START)
    sim.call(lambda: sim.controller.facade.set_keep_alive(job, 0))
    sim.end_job(job)
    assert pool_status(sim, job)[0] == "Terminated"
    with pytest.raises(ResourceInUseError, match="retains no warm pool"):
        sim.call(lambda: sim.controller.facade.set_keep_alive(job, 60))


def test_no_keep_alive_of_a_running_job_is_set_beyond_the_cap(sim: Simulation) -> None:
    job = sim.submit(keep_alive=60)
    with pytest.raises(ResourceLimitError):
        sim.call(lambda: sim.controller.facade.set_keep_alive(job, LIMITS.keep_alive_cap + 1))
    assert sim.job(job).keep_alive is None


def test_zero_releases_a_pool_at_once_and_its_job_is_billed_until_then(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=600)
    sim.pass_time(40)
    sim.call(lambda: sim.controller.facade.extend(sim.pools()[0].id, 0))
    assert pool_status(sim, job) == ("Terminated", "", 40)
    assert sim.world.live_hosts() == []
    assert sim.pool(sim.job(job).cluster).retained_seconds == pytest.approx(40)


def test_a_pool_that_is_in_use_can_be_neither_extended_nor_released(sim: Simulation) -> None:
    sim.submit(keep_alive=600)
    sim.pass_time(START)
    pool = sim.pools()[0]
    for ask in (lambda: sim.controller.facade.extend(pool.id, 60), lambda: sim.controller.facade.release(pool.id)):
        with pytest.raises(ResourceInUseError):
            sim.call(ask)
    with pytest.raises(ResourceNotFoundError):
        sim.call(lambda: sim.controller.facade.release("nobody"))


def test_no_pool_is_extended_beyond_the_cap(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=60)
    with pytest.raises(ResourceLimitError):
        sim.call(lambda: sim.controller.facade.extend(sim.pools()[0].id, LIMITS.keep_alive_cap + 1))


def test_a_keep_alive_over_the_cap_is_refused_and_nothing_is_written(sim: Simulation) -> None:
    with pytest.raises(ResourceLimitError):
        sim.submit(keep_alive=LIMITS.keep_alive_cap + 1)
    assert sim.controller.store.live_jobs() == []
    assert sim.controller.store.last_seq() == 0


def test_a_pool_that_is_as_old_as_pools_may_be_is_not_kept() -> None:
    with Simulation(limits=replace(LIMITS, max_keep_alive_chain=100)) as sim:
        first = sim.run_to_end(keep_alive=600)
        expires = sim.pools()[0].expires_at
        assert expires is not None
        assert expires - sim.pools()[0].created_at <= 100
        sim.pass_time(90)
        second = sim.submit(keep_alive=600)
        sim.pass_time(20)
        sim.end_job(second)
        assert sim.start_reason(second).start == "warm"
        pool = sim.job(second).warm_pool
        assert pool is not None
        assert pool.status is WarmPoolStatus.TERMINATED
        assert "maximum age" in pool.reason
        assert pool_status(sim, first)[0] == "Reused"


def test_a_pool_makes_room_for_a_job_that_needs_its_hosts_and_its_last_job_says_so(sim: Simulation) -> None:
    kept = sim.run_to_end(keep_alive=600, role="a", hosts=2)
    sim.pass_time(10)
    job = sim.submit(hosts=2)
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert pool_status(sim, kept) == ("Terminated", "", 10)
    pool = sim.job(kept).warm_pool
    assert pool is not None
    assert sim.job(job).name in pool.reason
    assert sim.world.most_hosts <= LIMITS.max_hosts


def test_a_finished_job_can_be_deleted_only_when_it_holds_no_pool(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=600)
    with pytest.raises(ResourceInUseError):
        sim.call(lambda: sim.controller.facade.delete(job))
    sim.call(lambda: sim.controller.facade.release(sim.pools()[0].id))
    sim.call(lambda: sim.controller.facade.delete(job))
    with pytest.raises(ResourceNotFoundError):
        sim.job(job)


def test_when_nobody_wants_anything_nothing_is_done(sim: Simulation) -> None:
    """Bug 7 of the catalogue: a controller without demand stops launching and writing."""
    sim.run_to_end(keep_alive=120)
    sim.run_to_end(keep_alive=120, role="b")
    sim.pass_time(130)
    launches, seq = sum(sim.world.launches.values()), sim.controller.store.last_seq()
    sim.pass_time(3_600)
    assert sum(sim.world.launches.values()) == launches == 2
    assert sim.controller.store.last_seq() == seq
    assert (sim.pools(), sim.world.live_hosts()) == ([], [])


def test_an_idle_pool_is_left_in_peace_until_its_time(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=3_000)
    seq = sim.controller.store.last_seq()
    sim.pass_time(2_900)
    assert sim.controller.store.last_seq() == seq
    assert len(sim.world.live_hosts()) == 1


def test_in_a_loop_of_jobs_every_one_after_the_first_is_warm(sim: Simulation) -> None:
    """Bug 14 of the catalogue: a pool that is warmed and never used."""
    jobs = [sim.run_to_end(keep_alive=600) for _ in range(30)]
    assert [sim.start_reason(job).start for job in jobs] == ["cold"] + ["warm"] * 29
    assert sum(sim.world.launches.values()) == 1
    assert sim.pools()[0].jobs_served == 30


def test_a_job_that_is_submitted_at_the_very_moment_of_the_end_is_warm(sim: Simulation) -> None:
    """Bug 18 of the catalogue: a client that waits for the verdict and submits at once must get the pool."""
    first, second = sim.submit(keep_alive=600), sim.new_id()

    async def wait_and_submit() -> None:
        desk = sim.controller.facade
        done = await desk.wait_job(first, "final", 100)
        assert done.status() is Status.COMPLETED
        desk.submit(second, sim.spec(keep_alive=600))

    waiter = sim.call(lambda: sim.loop.create_task(wait_and_submit()))
    sim.pass_time(START)
    sim.end_job(first)
    assert waiter.done()
    assert sim.start_reason(second).start == "warm"
    assert sim.job(second).state is SecondaryStatus.TRAINING


def test_the_hosts_own_deadline_agrees_with_the_record_also_when_no_job_ran(sim: Simulation) -> None:
    """Bug 10 of the catalogue: hosts end alone, by their own clock."""
    job = sim.submit(keep_alive=200)
    sim.stop(job)
    sim.pass_time(START)
    sim.kill_controller()
    sim.pass_time(190)
    assert len(sim.world.live_hosts()) == 1
    sim.pass_time(15)
    assert sim.world.live_hosts() == []


def test_a_reconnect_does_not_lengthen_a_short_keep_alive(sim: Simulation) -> None:
    """Agents stay for a minute after each job, so that outputs can be collected; that is not a keep-alive."""
    job = sim.run_to_end(keep_alive=10)
    sim.break_streams(sim.hosts(job)[0])
    sim.restart()
    sim.pass_time(12)
    assert pool_status(sim, job)[0] == "Terminated"
    assert sim.world.live_hosts() == []


def test_a_pool_whose_hosts_ended_by_themselves_is_written_off(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=600)
    sim.kill_host(sim.hosts(job)[0])
    assert pool_status(sim, job)[0] == "Terminated"
    assert sim.start_reason(sim.submit()).start == "cold"


def test_what_could_not_be_preloaded_is_said_to_the_next_job(sim: Simulation) -> None:
    """Bug 4 of the catalogue: a preload that fails without a message."""
    first = sim.submit(keep_alive=600)
    sim.pass_time(START)
    said = {"event": "preload", "loaded": ["numpy"], "failed": {"torch": "No module named 'torch'."}, "pending": []}
    sim.call(lambda: sim.hosts(first)[0].send_event(said))
    sim.end_job(first)
    why = sim.start_reason(sim.submit(imports=("numpy", "torch"), keep_alive=600))
    assert why.notes[1:] == ("Already imported: numpy.", "Not preloaded: torch, No module named 'torch'.")

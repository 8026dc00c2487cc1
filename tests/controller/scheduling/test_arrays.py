"""Arrays: all tasks or none, each once, in fair turns with others, on pools that the tasks hand over to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceInUseError, ResourceLimitError, ResourceNotFoundError, ValidationError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.array import ArrayCounts, TaskOverrides, task_id
from jupyter_smx.model.status import Status
from jupyter_smx.policy.lifecycle.keep_alive import HAND_OVER
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.spec.array import ArraySummary

START = 0.6


def summary(sim: Simulation, array: str) -> ArraySummary:
    desk = sim.controller.facade.arrays
    return desk.summary(desk.find(array))


def running(sim: Simulation) -> list[str]:
    return list(dict.fromkeys(run.job for _, run in sim.world.running_jobs()))


def play(sim: Simulation, seconds: float = START) -> list[str]:
    """Let time pass and end whatever runs, until nothing runs any more; gives the jobs in the order of their ends."""
    ended: list[str] = []
    sim.pass_time(seconds)
    while now := running(sim):
        sim.end_job(now[0])
        ended.append(now[0])
        sim.pass_time(seconds)
    return ended


def test_every_task_runs_once_in_its_order_with_its_own_values(sim: Simulation) -> None:
    array = sim.submit_array(5, max_concurrent=1)
    tasks = [task_id(array, index) for index in range(5)]
    assert play(sim) == tasks
    assert set(sim.world.run_counts.values()) == {1}
    assert summary(sim, array).counts == ArrayCounts(completed=5)
    records = [sim.job(task) for task in tasks]
    assert [record.spec.hyperparameters for record in records] == [{"n": str(n)} for n in range(5)]
    assert [record.name.rpartition("-")[2] for record in records] == [str(n) for n in range(5)]
    assert [row.id for row in sim.controller.facade.arrays.tasks(sim.controller.facade.arrays.find(array))] == tasks


def test_a_list_of_tasks_has_no_password_of_a_url_and_the_task_itself_has_it(sim: Simulation) -> None:
    array, url = sim.new_id(), "ftp://me:hunter2@host/x"
    wish = replace(sim.array_request(1), tasks=(TaskOverrides(hyperparameters={"db": url}),))
    sim.call(lambda: sim.controller.facade.arrays.submit(array, wish))
    record = sim.job(task_id(array, 0))
    assert record.spec.hyperparameters["db"] == url
    assert record.spec.array is not None
    assert record.spec.array.values == {"db": "ftp://me:…@host/x"}


def test_tasks_without_a_keep_alive_hand_their_hosts_over_and_the_last_lets_them_go(sim: Simulation) -> None:
    array = sim.submit_array(6)
    play(sim)
    assert len(sim.world.launches) == sim.limits.cpus
    starts = [sim.start_reason(task_id(array, n)).start for n in range(6)]
    assert starts == ["cold", "cold", "warm", "warm", "warm", "warm"]
    assert sim.world.live_hosts() == []


def test_hosts_that_are_as_old_as_pools_may_be_are_handed_to_no_other_task() -> None:
    with Simulation(limits=replace(LIMITS, max_keep_alive_chain=100)) as sim:
        sim.submit_array(6)
        assert len(play(sim, 70.0)) == 6
        assert len(sim.world.launches) > sim.limits.cpus
        assert sim.world.live_hosts() == []


def test_hosts_go_as_soon_as_no_task_waits_although_others_still_run(sim: Simulation) -> None:
    sim.submit_array(3)
    sim.pass_time(START)
    first, second = running(sim)
    sim.end_job(first)
    assert len(running(sim)) == 2
    sim.end_job(second)
    sim.pass_time(START)
    assert len(sim.world.live_hosts()) == 1


def waiting(sim: Simulation) -> tuple[str, Cluster]:
    """Give an array, and hosts that wait for its next task in vain: a wide job stands before it and finds no room."""
    array = sim.submit_array(4)
    sim.pass_time(START)
    sim.submit(hosts=2)
    sim.end_job(running(sim)[0])
    (idle,) = sim.pools(ClusterState.AVAILABLE)
    assert idle.kept_for
    return array, idle


def test_a_pool_that_waits_for_a_task_in_vain_is_not_kept_for_ever(sim: Simulation) -> None:
    _array, idle = waiting(sim)
    sim.pass_time(HAND_OVER + 5)
    assert sim.pool(idle.id).state is ClusterState.TERMINATED


def test_a_pool_that_waits_for_a_task_goes_as_soon_as_none_can_come(sim: Simulation) -> None:
    array, idle = waiting(sim)
    sim.stop_array(array)
    sim.pass_time(0.1)
    assert sim.pool(idle.id).state is ClusterState.TERMINATED
    assert sim.pool(idle.id).reason == "Every task of its array has started."


def test_hosts_that_wait_for_a_task_are_kept_for_longer_only_within_the_quota() -> None:
    with Simulation(limits=replace(LIMITS, warm_pool_quota={"local": 0})) as sim:
        _array, idle = waiting(sim)
        with pytest.raises(ResourceLimitError, match="The quota for warm local instances is 0"):
            sim.call(lambda: sim.controller.facade.extend(idle.id, 600))


def test_a_keep_alive_of_the_tasks_outlives_the_array(sim: Simulation) -> None:
    sim.submit_array(3, keep_alive=600)
    play(sim)
    assert len(sim.pools(ClusterState.AVAILABLE)) == sim.limits.cpus


def test_tasks_without_a_keep_alive_leave_a_kept_pool_as_it_was(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=600)
    sim.submit_array(3, max_concurrent=1)
    play(sim)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    assert (pool.jobs_served, pool.keep_alive, pool.kept_for) == (4, 600, "")
    sim.pass_time(610)
    assert sim.world.live_hosts() == []


def test_no_more_tasks_run_at_a_time_than_the_array_allows(sim: Simulation) -> None:
    array = sim.submit_array(4, max_concurrent=1)
    other = sim.submit()
    sim.pass_time(START)
    assert running(sim) == [task_id(array, 0), other]
    sim.end_job(other)
    sim.pass_time(30)
    assert running(sim) == [task_id(array, 0)]
    assert len(play(sim)) == 4


def test_a_job_that_comes_after_a_long_array_is_next(sim: Simulation) -> None:
    array = sim.submit_array(20)
    sim.pass_time(START)
    late = sim.submit()
    sim.end_job(task_id(array, 0))
    sim.pass_time(START)
    assert late in running(sim)


def test_all_tasks_are_taken_or_none(sim: Simulation) -> None:
    bad = sim.array_request(3)
    bad = replace(bad, tasks=(*bad.tasks, TaskOverrides(hyperparameters={"n": "x" * 3_000})))
    with pytest.raises(ValidationError, match="the value has 3000 characters"):
        sim.call(lambda: sim.controller.facade.arrays.submit(sim.new_id(), bad))
    assert sim.controller.live_state.jobs == {}
    assert sim.controller.facade.arrays.newest(5) == []


def test_an_array_that_does_not_fit_into_the_queue_is_refused_whole() -> None:
    with Simulation(limits=replace(LIMITS, max_jobs_queued=3)) as sim:
        with pytest.raises(ResourceLimitError):
            sim.submit_array(4)
        assert sim.controller.live_state.jobs == {}
        sim.submit_array(3)


@pytest.mark.parametrize(("size", "limit"), [(0, 0), (10_001, 0), (1, -1)])
def test_sizes_and_limits_have_bounds(sim: Simulation, size: int, limit: int) -> None:
    with pytest.raises(ValidationError):
        sim.submit_array(size, max_concurrent=limit)


def test_the_same_wish_with_the_same_id_is_one_array_and_another_wish_is_refused(sim: Simulation) -> None:
    array = sim.submit_array(2)
    desk = sim.controller.facade.arrays
    again, is_new = sim.call(lambda: desk.submit(array, sim.array_request(2)))
    assert (again.id, is_new) == (array, False)
    assert len(sim.controller.live_state.jobs) == 2
    with pytest.raises(ResourceInUseError):
        sim.call(lambda: desk.submit(array, sim.array_request(3)))


def test_two_arrays_whose_ids_begin_alike_have_names_of_their_own(sim: Simulation) -> None:
    desk = sim.controller.facade.arrays
    for array in ("abcdef000001", "abcdef000002"):
        sim.call(lambda array=array: desk.submit(array, sim.array_request(1)))
    assert {row.name for row in desk.newest(5)} == {"train-abcdef", "train-abcdef000002"}
    assert desk.find("train").id == "abcdef000002"
    with pytest.raises(ResourceNotFoundError, match="could be"):
        desk.find("abcdef")


def test_a_stop_ends_those_that_wait_at_once_and_asks_those_that_run(sim: Simulation) -> None:
    array = sim.submit_array(50)
    sim.pass_time(START)
    writes = sim.controller.store.writes
    sim.stop_array(array)
    assert sim.controller.store.writes - writes < 20, "not one write for each task"
    sim.pass_time(START)
    assert summary(sim, array).counts == ArrayCounts(stopped=50)
    assert sim.world.live_hosts() == []
    assert len(sim.world.job_clusters) == sim.limits.cpus


@pytest.mark.parametrize(("exit_code", "status"), [(0, Status.IN_PROGRESS), (1, Status.FAILED)])
def test_a_job_may_come_after_a_whole_array(sim: Simulation, exit_code: int, status: Status) -> None:
    array = sim.submit_array(3)
    last = sim.submit(after=(array,))
    sim.pass_time(START)
    sim.end_job(task_id(array, 0))
    sim.pass_time(START)
    assert sim.job(last).cluster == ""
    sim.end_job(task_id(array, 1), exit_code=exit_code)
    sim.end_job(task_id(array, 2))
    sim.pass_time(START)
    assert sim.job(last).status() is status
    if exit_code:
        assert f"{sim.job(task_id(array, 1)).name}: AlgorithmError: Exit Code: 1" in sim.job(last).failure_reason


def test_a_finished_task_decides_over_what_comes_after_its_array_and_cannot_be_forgotten_yet(sim: Simulation) -> None:
    array = sim.submit_array(3)
    sim.submit(after=(array,))
    sim.pass_time(START)
    sim.end_job(task_id(array, 0))
    with pytest.raises(ResourceInUseError, match="cannot be deleted yet"):
        sim.call(lambda: sim.controller.facade.delete(task_id(array, 0)))


@pytest.mark.parametrize("exit_code", [0, 1])
def test_nothing_may_come_after_an_array_of_which_a_task_was_deleted(sim: Simulation, exit_code: int) -> None:
    array = sim.submit_array(2)
    sim.pass_time(START)
    sim.end_job(task_id(array, 0), exit_code=exit_code)
    sim.end_job(task_id(array, 1))
    sim.pass_time(START)
    sim.call(lambda: sim.controller.facade.delete(task_id(array, 0)))
    with pytest.raises(ResourceNotFoundError, match=r"tasks of the array .* were deleted"):
        sim.submit(after=(array,))


def test_an_array_after_another_one_counts_the_tasks_of_that_once_and_not_for_each_of_its_own(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, records, asked = sim.submit_array(3), sim.controller.store.arrays, []
    count = records.counts

    def counts(array: str) -> ArrayCounts:
        asked.append(array)
        return count(array)

    monkeypatch.setattr(records, "counts", counts)
    sim.submit_array(100, after=(first,))
    assert asked.count(first) < 10


def test_a_whole_array_may_come_after_a_job(sim: Simulation) -> None:
    first = sim.submit()
    array = sim.submit_array(3, after=(first,))
    sim.pass_time(START)
    assert summary(sim, array).counts == ArrayCounts(pending=3)
    sim.end_job(first, exit_code=1)
    assert summary(sim, array).counts == ArrayCounts(failed=3)


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_loses_no_task_and_runs_none_twice(
    sim: Simulation, count: int, before: bool
) -> None:
    sim.kill_controller_at_write(count, before=before)
    array = sim.submit_array(4)
    sim.pass_time(START)
    sim.end_job(task_id(array, 0))
    sim.pass_time(START)
    sim.restart()
    known = sim.controller.store.arrays.array(array) is not None
    assert len(sim.controller.store.arrays.tasks(array)) == (4 if known else 0)
    assert known or (count == 1 and before)
    play(sim)
    if known:
        assert summary(sim, array).counts == ArrayCounts(completed=4)
    assert set(sim.world.run_counts.values()) <= {1}
    assert not sim.world.live_hosts()


def test_tasks_keep_their_order_over_a_restart(sim: Simulation) -> None:
    array = sim.submit_array(12, max_concurrent=1)
    sim.pass_time(START)
    sim.restart()
    sim.pass_time(START)
    assert play(sim) == [task_id(array, index) for index in range(12)]

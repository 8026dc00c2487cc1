"""Jobs in order: chains that run, fail, stop and outlive their controller; other jobs do not wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import ResourceInUseError, ResourceNotFoundError
from jupyter_smx.model.status import SecondaryStatus, Status

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6


def summary(sim: Simulation, job: str) -> JobSummary:
    rows: list[JobSummary] = sim.call(lambda: sim.controller.facade.jobs(100, "", None))
    return next(row for row in rows if row.id == job)


def test_a_job_begins_when_all_that_it_comes_after_have_completed(sim: Simulation) -> None:
    first, second = sim.submit(), sim.submit()
    last = sim.submit(after=(first, second))
    sim.pass_time(START)
    names = [sim.job(each).name for each in (first, second)]
    assert sim.start_reason(last).sentence == f"Queued. Waiting for {names[0]} and {names[1]}."
    assert sim.job(last).state is SecondaryStatus.PENDING
    sim.end_job(first)
    assert sim.start_reason(last).sentence == f"Queued. Waiting for {names[1]}."
    assert last not in sim.world.job_clusters
    sim.end_job(second)
    sim.pass_time(START)
    assert last in sim.world.job_clusters
    sim.end_job(last)
    assert sim.job(last).status() is Status.COMPLETED


def test_lists_say_whom_a_job_waits_for_and_give_it_no_place_in_the_line(sim: Simulation) -> None:
    first = sim.submit(hosts=2)
    last, other = sim.submit(after=(first,)), sim.submit()
    assert summary(sim, last).message == f"Queued. Waiting for {sim.job(first).name}."
    assert summary(sim, last).queue_position is None
    assert summary(sim, other).queue_position == 1


def test_whoever_waits_for_a_job_holds_nobody_up(sim: Simulation) -> None:
    first = sim.submit()
    sim.submit(after=(first,))
    other = sim.submit()
    sim.pass_time(START)
    assert other in sim.world.job_clusters


def test_a_failure_goes_down_the_chain_without_running_anything(sim: Simulation) -> None:
    first = sim.submit()
    chain = [sim.submit(after=(first,))]
    for _ in range(3):
        chain.append(sim.submit(after=(chain[-1],)))
    sim.pass_time(START)
    sim.end_job(first, exit_code=3)
    assert [sim.job(each).status() for each in chain] == [Status.FAILED] * 4
    assert not set(chain) & sim.world.job_clusters.keys()
    told = sim.job(chain[1]).failure_reason
    root, middle = sim.job(first).name, sim.job(chain[0]).name
    assert told == f"ClientError: --after: {middle} failed: {root} failed: AlgorithmError: Exit Code: 3"


def test_a_stop_goes_down_the_chain_as_a_stop(sim: Simulation) -> None:
    first = sim.submit()
    second = sim.submit(after=(first,))
    third = sim.submit(after=(second,))
    sim.stop(second)
    assert sim.job(third).status() is Status.STOPPED
    assert sim.job(third).transitions[-1].status_message.startswith("Stopped before it started, because ")
    assert sim.job(first).status() is Status.IN_PROGRESS


def test_a_job_may_come_after_one_that_is_over(sim: Simulation) -> None:
    good, bad = sim.run_to_end(), sim.submit()
    sim.pass_time(START)
    sim.end_job(bad, exit_code=1)
    runs, never = sim.submit(after=(good,)), sim.submit(after=(bad,))
    sim.pass_time(START)
    assert runs in sim.world.job_clusters
    assert sim.job(never).status() is Status.FAILED


def test_a_job_cannot_come_after_one_that_nobody_knows(sim: Simulation) -> None:
    with pytest.raises(ResourceNotFoundError, match="there is no job 'abcdefabcdef'"):
        sim.submit(after=("abcdefabcdef",))
    assert sim.controller.live_state.jobs == {}


def test_a_finished_job_that_decides_over_others_cannot_be_forgotten_yet(sim: Simulation) -> None:
    first, second = sim.run_to_end(), sim.submit()
    last = sim.submit(after=(first, second))
    with pytest.raises(ResourceInUseError, match="cannot be deleted yet"):
        sim.call(lambda: sim.controller.facade.delete(first))
    sim.pass_time(START)
    sim.end_job(second)
    sim.pass_time(START)
    assert last in sim.world.job_clusters
    sim.end_job(last)
    sim.call(lambda: sim.controller.facade.delete(first))
    with pytest.raises(ResourceNotFoundError):
        sim.submit(after=(first,))


@pytest.mark.parametrize("exit_code", [0, 1])
def test_order_outlives_the_controller_and_what_ended_meanwhile_counts(sim: Simulation, exit_code: int) -> None:
    first = sim.submit()
    last = sim.submit(after=(first,))
    sim.pass_time(START)
    sim.kill_controller()
    sim.end_job(first, exit_code=exit_code)
    sim.restart()
    sim.pass_time(5)
    assert (last in sim.world.job_clusters) == (exit_code == 0)
    assert sim.job(last).status() is (Status.IN_PROGRESS if exit_code == 0 else Status.FAILED)


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_between_an_end_and_what_follows_loses_nobody(
    sim: Simulation, count: int, before: bool
) -> None:
    first = sim.submit()
    last = sim.submit(after=(first,))
    sim.pass_time(START)
    sim.kill_controller_at_write(count, before=before)
    sim.end_job(first)
    sim.pass_time(START)
    sim.restart()
    sim.pass_time(5)
    assert sim.world.job_clusters[last]
    assert set(sim.world.start_counts.values()) == {1}


def test_a_chain_ends_at_once_in_whatever_order_its_jobs_are_looked_at(sim: Simulation) -> None:
    chain = [sim.submit()]
    for _ in range(9):
        chain.append(sim.submit(after=(chain[-1],)))
    sim.restart()
    live = sim.controller.live_state.jobs
    assert [*live] == chain
    for each in chain[1::2]:
        live[each] = live.pop(each)
    sim.pass_time(START)
    sim.end_job(chain[0], exit_code=1)
    assert {sim.job(each).status() for each in chain} == {Status.FAILED}


def test_a_job_is_not_forgotten_while_one_that_came_after_it_may_stand_in_line_again(sim: Simulation) -> None:
    first = sim.run_to_end()
    second = sim.submit(after=(first,), retries=1)
    sim.pass_time(START)
    assert second in sim.world.job_clusters
    with pytest.raises(ResourceInUseError, match="depend on it"):
        sim.call(lambda: sim.controller.facade.delete(first))
    sim.kill_host(sim.hosts(second)[0])
    sim.pass_time(START + 1)
    sim.end_job(second)
    assert sim.job(second).status() is Status.COMPLETED
    sim.call(lambda: sim.controller.facade.delete(first))

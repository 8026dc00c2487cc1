"""An engine takes machines away and says so before: jobs are told to end, spot jobs begin again, others say why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import DesiredState, SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import Simulation

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

START = 0.6
GRACE = 30.0


def begin(sim: Simulation, **fields: object) -> str:
    """Submit a job and wait until its code runs."""
    job = sim.submit(**fields)
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    return job


def take_away(sim: Simulation, job: str, number: int = 0) -> None:
    """Give notice to one host of a job."""
    sim.give_notice(sim.hosts(job)[number], GRACE)


def taken_away(job: Job, why: str = "its engine gave notice and no reason.") -> bool:
    """Say whether a job says that its machine was taken away, and why."""
    return job.failure_reason.startswith(f"InternalServerError: The machine of algo-1 was taken away: {why}")


def test_a_spot_job_begins_again_on_other_hosts(sim: Simulation) -> None:
    job = begin(sim, spot=True)
    (first,) = sim.hosts(job)
    take_away(sim, job)
    sim.pass_time(START)
    record = sim.job(job)
    assert (record.attempt, record.goal, record.attempts[0].interrupted) == (2, DesiredState.RUN, True)
    assert record.attempts[0].hosts[0].cause == "interrupted"
    assert sim.hosts(job) != [first]
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


def test_a_job_without_spot_fails_and_says_that_its_machine_was_taken_away(sim: Simulation) -> None:
    job = begin(sim)
    take_away(sim, job)
    sim.pass_time(1.0)
    record = sim.job(job)
    assert record.status() is Status.FAILED
    assert taken_away(record)
    assert record.hosts[0].cause == "interrupted"


def test_a_failed_job_names_the_reason_of_its_engine(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    async def exit_reason(_cluster: str, _host: str) -> str:
        return "the allocation's time limit was reached."

    monkeypatch.setattr(sim.engine, "exit_reason", exit_reason)
    job = begin(sim)
    take_away(sim, job)
    sim.pass_time(1.0)
    assert taken_away(sim.job(job), "the allocation's time limit was reached.")


def test_a_retry_runs_on_another_machine(sim: Simulation) -> None:
    job = begin(sim, retries=1)
    take_away(sim, job)
    sim.pass_time(START)
    record = sim.job(job)
    assert (record.attempt, record.attempts[0].interrupted) == (2, False)
    assert "was taken away" in record.attempts[0].reason


def test_a_job_that_ignores_the_notice_says_why_it_will_end(sim: Simulation) -> None:
    job = sim.submit()
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    take_away(sim, job)
    sim.pass_time(1.0)
    assert sim.job(job).transitions[-1].status_message == (
        "The machine of algo-1 is taken away in 30 s; the job was told to end."
    )
    sim.pass_time(GRACE)
    assert taken_away(sim.job(job))
    assert sim.pools() == []


def test_one_of_two_machines_is_enough(sim: Simulation) -> None:
    job = begin(sim, hosts=2)
    take_away(sim, job)
    sim.pass_time(1.0)
    record = sim.job(job)
    assert taken_away(record)
    assert {end.host: end.cause for end in record.hosts} == {"algo-1": "interrupted", "algo-2": "stopped"}


def test_a_stop_stays_a_stop(sim: Simulation) -> None:
    job = sim.submit()
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    sim.stop(job)
    take_away(sim, job)
    sim.pass_time(GRACE)
    assert sim.job(job).status() is Status.STOPPED


def test_a_job_that_completes_in_the_grace_is_completed_and_leaves_no_pool(sim: Simulation) -> None:
    job = sim.submit(keep_alive=300)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    take_away(sim, job)
    sim.end_job(job)
    record = sim.job(job)
    assert record.status() is Status.COMPLETED
    assert record.warm_pool is not None
    assert record.warm_pool.reason == "Its hosts take no more jobs, because their time is over."
    sim.pass_time(1.0)
    assert sim.pools() == []


def test_an_idle_pool_is_given_up_and_the_next_job_starts_cold(sim: Simulation) -> None:
    sim.run_to_end(keep_alive=300)
    (pool,) = sim.pools(ClusterState.AVAILABLE)
    sim.give_notice(sim.world.cluster_hosts(pool.id)[0], GRACE)
    job = begin(sim)
    assert sim.start_reason(job).start == "cold"
    assert sim.pool(pool.id).reason == "The machine of algo-1 was taken away."


@pytest.mark.parametrize("spot", [False, True])
def test_a_notice_while_no_controller_lives_is_read_from_the_record(spot: bool) -> None:
    with Simulation() as sim:
        job = begin(sim, spot=spot)
        (host,) = sim.hosts(job)
        sim.kill_controller()
        sim.give_notice(host, GRACE)
        sim.pass_time(GRACE)
        sim.restart()
        sim.pass_time(5.0)
        record = sim.job(job)
        if spot:
            assert (record.attempt, record.attempts[0].interrupted) == (2, True)
        else:
            assert taken_away(record)
        assert not sim.bugs


def test_a_limit_that_is_over_with_the_machine_is_the_cause(sim: Simulation) -> None:
    job = begin(sim)
    (host,) = sim.hosts(job)
    (run,) = host.runs.values()
    sim.call(lambda: host.end_run(run, cause="max_runtime", signal=15))
    assert sim.job(job).state is SecondaryStatus.MAX_RUNTIME_EXCEEDED

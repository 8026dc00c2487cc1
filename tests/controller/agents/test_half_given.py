"""A job that ends while only some of its hosts have it: no part of it runs on, and its hosts serve no other job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.testing.fakes.fake_engine import PausedHosts
from jupyter_smx.testing.fakes.fake_host import FakeScript, Refusal

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

POOL = 600


def half_given(sim: Simulation, **fields: Any) -> str:
    """Submit a job to a warm pool whose second host drops the request; afterwards neither host can be reached."""
    first = sim.run_to_end(hosts=2, keep_alive=POOL)
    second = sim.hosts(first)[1]

    def drop(_header: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionResetError

    answer, second._handlers["run"] = second._handlers["run"], drop
    sim.set_faults(PausedHosts())
    job = sim.submit(hosts=2, keep_alive=POOL, **fields)
    second._handlers["run"] = answer
    sim.pass_time(2.0)
    assert sim.job(job).cluster == sim.job(first).cluster
    assert [host.name for host, _ in sim.world.running_jobs()] == ["algo-1"]
    return job


def assert_over(sim: Simulation, job: str, verdict: SecondaryStatus) -> None:
    """Assert that a job ended, that no part of it runs on, and that the next job gets two hosts for itself."""
    ended = sim.job(job)
    assert ended.state is verdict
    assert "before the code started" not in ended.transitions[-1].status_message
    assert [end.host for end in ended.hosts] == ["algo-1", "algo-2"]
    assert ended.hosts[1].failure == "The job was stopped before it reached algo-2."
    assert sim.world.running_jobs() == []
    assert sim.world.start_counts[job, "algo-1"] == 1
    assert (job, "algo-2") not in sim.world.start_counts
    assert sim.pool(ended.cluster).state is ClusterState.TERMINATED
    following = sim.submit(hosts=2, keep_alive=POOL)
    sim.pass_time(5.0)
    assert sorted((host.name, run.job) for host, run in sim.world.running_jobs()) == [
        ("algo-1", following),
        ("algo-2", following),
    ]
    sim.end_job(following)
    assert sim.job(following).state is SecondaryStatus.COMPLETED


def test_a_stop_reaches_the_hosts_that_have_the_job_and_all_of_them_go(sim: Simulation) -> None:
    job = half_given(sim)
    sim.stop(job)
    sim.set_faults()
    sim.pass_time(40.0)
    assert sim.job(job).hosts[0].cause == "stopped"
    assert_over(sim, job, SecondaryStatus.STOPPED)


def test_a_host_that_ends_in_its_own_time_has_it(sim: Simulation) -> None:
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    half_given(sim, job_id=job)
    sim.stop(job)
    sim.set_faults()
    sim.pass_time(sim.limits.grace)
    assert sim.job(job).state is SecondaryStatus.STOPPING
    sim.pass_time(30.0)
    assert_over(sim, job, SecondaryStatus.STOPPED)


def test_code_that_ended_well_on_some_hosts_did_not_complete_the_job(sim: Simulation) -> None:
    job = half_given(sim)
    sim.stop(job)
    sim.end_job(job)
    sim.set_faults()
    sim.pass_time(40.0)
    assert sim.job(job).hosts[0].exit_code == 0
    assert_over(sim, job, SecondaryStatus.STOPPED)


def test_a_new_controller_finds_the_same(sim: Simulation) -> None:
    job = half_given(sim)
    sim.stop(job)
    sim.restart()
    sim.set_faults()
    sim.pass_time(40.0)
    assert_over(sim, job, SecondaryStatus.STOPPED)


@pytest.mark.parametrize("goal", [DesiredState.RUN, DesiredState.INTERRUPT])
def test_a_job_that_should_go_on_or_begin_again_is_given_to_the_others(sim: Simulation, goal: DesiredState) -> None:
    job = half_given(sim, spot=goal is DesiredState.INTERRUPT)
    if goal is DesiredState.INTERRUPT:
        sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.set_faults()
    sim.pass_time(60.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert [(host.name, run.job) for host, run in sim.world.running_jobs()] == [("algo-1", job), ("algo-2", job)]
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_job_that_one_host_refuses_ends_on_the_others_and_asks_it_once(sim: Simulation) -> None:
    first = sim.run_to_end(hosts=2, keep_alive=POOL)
    asked: list[object] = []

    def refuse(header: dict[str, Any]) -> dict[str, Any]:
        asked.append(header["job"])
        raise Refusal("ValidationException")

    sim.hosts(first)[1]._handlers["run"] = refuse
    job = sim.submit(hosts=2, keep_alive=POOL)
    sim.pass_time(30.0)
    ended = sim.job(job)
    assert asked == [job]
    assert ended.state is SecondaryStatus.FAILED
    assert [(end.host, end.cause) for end in ended.hosts][1] == ("algo-2", "refused")
    assert sim.world.running_jobs() == []

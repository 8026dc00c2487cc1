"""Runs that failed by our fault begin again: never two at once, never after a failure of the code, all in one time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
HOUR = 3_600


def steps(sim: Simulation, job: str) -> list[SecondaryStatus]:
    return [row.status for row in sim.job(job).transitions]


def lose(sim: Simulation, job: str) -> None:
    """Let the first host of a job die, and let that be noticed."""
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(0.1)


def run_spec(sim: Simulation, job: str) -> Any:
    (host,) = sim.hosts(job)
    return host.runs[job].spec


def test_a_job_whose_host_was_lost_begins_again_on_another(sim: Simulation) -> None:
    job = sim.submit(retries=2)
    sim.pass_time(START)
    first = sim.job(job).cluster
    lose(sim, job)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.pass_time(START)
    sim.end_job(job)
    record = sim.job(job)
    assert record.status() is Status.COMPLETED
    assert (record.attempt, [each.number for each in record.attempts]) == (2, [1])
    assert record.attempts[0].cluster == first != record.cluster
    assert record.attempts[0].reason.startswith("InternalServerError: ")
    assert record.attempts[0].hosts[0].cause == "host"
    assert steps(sim, job) == [
        SecondaryStatus.PENDING,
        SecondaryStatus.STARTING,
        SecondaryStatus.TRAINING,
        SecondaryStatus.STARTING,
        SecondaryStatus.TRAINING,
        SecondaryStatus.COMPLETED,
    ]
    assert record.transitions[3].status_message.startswith("Attempt 2 of 3, after InternalServerError")
    assert sim.world.job_clusters[job] == {first, record.cluster}


def test_when_the_attempts_are_used_up_the_last_reason_stays(sim: Simulation) -> None:
    job = sim.submit(retries=2)
    for _ in range(3):
        sim.pass_time(START)
        lose(sim, job)
    record = sim.job(job)
    assert record.status() is Status.FAILED
    assert record.failure_reason == "InternalServerError: Host algo-1 was lost while the job ran."
    assert (record.attempt, len(record.attempts)) == (3, 2)
    assert sim.world.live_hosts() == []


def test_without_a_wish_for_retries_there_is_none(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    lose(sim, job)
    assert sim.job(job).status() is Status.FAILED


@pytest.mark.parametrize("end", [{"exit_code": 1}, {"cause": "signal", "signal": 11}, {"cause": "memory", "signal": 9}])
def test_a_failure_of_the_code_is_never_retried(sim: Simulation, end: dict[str, Any]) -> None:
    job = sim.submit(retries=30)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    sim.call(lambda: host.end_run(host.runs[job], **end))
    assert sim.job(job).status() is Status.FAILED
    assert sim.job(job).failure_reason.startswith("AlgorithmError: ")
    assert sim.job(job).attempt == 1


def test_a_job_that_should_stop_does_not_begin_again(sim: Simulation) -> None:
    job = sim.submit(retries=3)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    sim.stop(job)
    lose(sim, job)
    assert sim.job(job).status() is Status.STOPPED
    assert sim.job(job).attempt == 1


def test_a_host_that_is_only_silent_is_waited_for(sim: Simulation) -> None:
    """Only what is gone is lost: a host that cannot be reached may still run the code."""
    job = sim.submit(retries=3)
    sim.pass_time(START)
    sim.set_faults(fake_engine.Outage(), fake_engine.DropsStreams())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(sim.limits.unreachable_limit + 60)
    assert sim.job(job).attempt == 1
    assert sim.hosts(job)[0].alive
    sim.set_faults()
    sim.pass_time(60)
    assert not sim.world.overlaps
    assert len(sim.world.running_jobs()) == 1


def test_a_cluster_that_its_engine_forgot_is_ended_before_the_job_begins_again(sim: Simulation) -> None:
    job = sim.submit(retries=1)
    sim.pass_time(START)
    old = sim.hosts(job)[0]
    sim.set_faults(fake_engine.ReportsGone())
    sim.pass_time(10)
    sim.set_faults()
    sim.pass_time(START)
    assert not old.alive
    assert not sim.world.overlaps
    assert sim.job(job).attempt == 2


def test_the_time_limit_covers_all_attempts(sim: Simulation) -> None:
    job = sim.submit(retries=5, max_run=HOUR)
    sim.pass_time(START + 0.25 * HOUR)
    lose(sim, job)
    sim.pass_time(START)
    assert 0.74 * HOUR < run_spec(sim, job)["max_run"] <= 0.75 * HOUR
    sim.pass_time(HOUR)
    assert sim.job(job).state is SecondaryStatus.MAX_RUNTIME_EXCEEDED
    assert sim.job(job).attempt == 2


def test_no_attempt_begins_when_no_time_is_left(sim: Simulation) -> None:
    job = sim.submit(retries=5, max_run=10)
    sim.pass_time(START + 9.5)
    lose(sim, job)
    assert sim.job(job).status() is Status.FAILED
    assert sim.job(job).attempt == 1


def test_only_the_time_of_attempts_is_paid_for(sim: Simulation) -> None:
    kind = "ml.m5.large"
    job = sim.submit(retries=1, instance_groups=(InstanceGroup(instance_type=kind),))
    sim.pass_time(START + HOUR)
    lose(sim, job)
    sim.pass_time(START + HOUR)
    sim.end_job(job)
    price = sim.limits.catalogue[kind].price_per_hour
    cost = sim.controller.live_state.summary(sim.job(job)).cost
    assert price is not None
    assert cost == pytest.approx(2 * price, rel=0.001)


def test_hosts_that_are_lost_before_the_code_are_no_attempt_until_they_are_too_many(sim: Simulation) -> None:
    job = sim.submit(retries=1)
    sim.world.scripts[job] = FakeScript(starts_after=30)
    for attempt, placement in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)):
        sim.pass_time(START)
        assert (sim.job(job).attempt, sim.job(job).placements) == (attempt, placement)
        lose(sim, job)
    assert sim.job(job).status() is Status.FAILED
    assert sim.world.start_counts == {}


def test_the_logs_of_attempts_are_kept_apart(sim: Simulation) -> None:
    job = sim.submit(retries=1)
    for text in (b"first try\n", b"second\n"):
        sim.pass_time(START)
        (host,) = sim.hosts(job)
        (host.spool / job / "log").write_bytes(text)
        if text.startswith(b"first"):
            lose(sim, job)
    sim.end_job(job)
    logs = sim.folder / "jobs" / job / "logs"
    assert (logs / "algo-1.log").read_bytes() == b"first try\n"
    assert (logs / "attempt-2" / "algo-1.log").read_bytes() == b"second\n"


def test_the_first_line_of_each_attempt_counts_for_itself(sim: Simulation) -> None:
    job = sim.submit(retries=1)
    sim.pass_time(START)
    before = sim.job(job).timings["first_line"]
    sim.pass_time(60)
    lose(sim, job)
    assert "first_line" not in sim.job(job).timings
    sim.pass_time(START)
    assert sim.job(job).timings["first_line"] > before + 60


@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_retries_once(sim: Simulation, count: int, before: bool) -> None:
    job = sim.submit(retries=1)
    sim.pass_time(START)
    sim.kill_controller_at_write(count, before=before)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(5)
    sim.restart()
    sim.pass_time(10)
    assert sim.job(job).attempt == 2
    assert len(sim.world.job_clusters[job]) == 2
    assert set(sim.world.run_counts.values()) == {1}
    assert not sim.world.overlaps
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


@pytest.mark.parametrize("retries", [-1, 31])
def test_thirty_retries_are_the_most(sim: Simulation, retries: int) -> None:
    with pytest.raises(ValidationError, match=r"--retries: -?\d+\. It is a whole number from 0 to 30\."):
        sim.submit(retries=retries)

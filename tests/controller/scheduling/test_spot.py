"""Managed spot: hosts are interrupted, the job restarts, its limits cover all attempts, with SageMaker's statuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import ResourceInUseError, ValidationError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import DesiredState, SecondaryStatus, Status
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
HOUR = 3_600
TRAIN = Channel(name="train", source="/data/train")
UPLOADED = {"artifacts": {"model.tar.gz": b"m"}}


def words(sim: Simulation, job: str) -> list[str]:
    """Return the steps of a job in SageMaker's words, without the first one, which SageMaker does not have."""
    rows = [row.status.value for row in sim.job(job).transitions]
    assert rows.pop(0) == "Pending"
    return rows


def spot(sim: Simulation, **fields: Any) -> str:
    return sim.submit(spot=True, channels=(TRAIN,), **fields)


def interrupt(sim: Simulation, job: str) -> None:
    sim.call(lambda: sim.controller.facade.interrupt(job))


def test_without_an_interruption_a_spot_job_is_like_any_other(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    sim.end_job(job, **UPLOADED)
    assert words(sim, job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]


def test_the_sequence_of_one_interruption(sim: Simulation) -> None:
    job = spot(sim, max_wait=86_400)
    sim.pass_time(START)
    (first,) = sim.hosts(job)
    interrupt(sim, job)
    sim.pass_time(START)
    (second,) = sim.hosts(job)
    sim.end_job(job, **UPLOADED)
    assert words(sim, job) == [
        "Starting", "Downloading", "Training", "Interrupted",
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    record = sim.job(job)
    assert first.cluster != second.cluster
    assert not first.alive
    assert (record.attempt, record.goal, record.attempts[0].interrupted) == (2, DesiredState.RUN, True)
    assert record.attempts[0].hosts[0].cause == "interrupted"
    assert [row.status_message for row in record.transitions][4:6] == [
        "Its spot instances are being reclaimed.",
        "Attempt 2 of 2, after Its spot instances were reclaimed.",
    ]


def test_the_status_stays_in_progress_and_name_and_hosts_are_the_same(sim: Simulation) -> None:
    job = spot(sim, hosts=2)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    before = sim.job(job)
    names = [host.name for host in sim.hosts(job)]
    interrupt(sim, job)
    assert (sim.job(job).status(), sim.job(job).state) == (Status.IN_PROGRESS, SecondaryStatus.INTERRUPTED)
    seen = set()
    for _ in range(15):
        sim.pass_time(1)
        seen.add(sim.job(job).status())
    assert seen == {Status.IN_PROGRESS}
    assert sim.job(job).name == before.name
    assert [host.name for host in sim.hosts(job)] == names
    assert sim.job(job).cluster != before.cluster


def test_the_sequence_of_a_wait_that_is_over_after_an_interruption(sim: Simulation) -> None:
    job = spot(sim, max_run=100, max_wait=100)
    sim.pass_time(START + 30)
    sim.engine.launch_seconds = 20  # new hosts take a while
    interrupt(sim, job)
    sim.pass_time(75)
    assert words(sim, job) == [
        "Starting", "Downloading", "Training", "Interrupted",
        "Starting", "Downloading", "Training", "Stopping", "MaxWaitTimeExceeded",
    ]  # fmt: skip
    assert sim.job(job).status() is Status.STOPPED


def test_the_sequence_of_a_job_that_was_never_launched(sim: Simulation) -> None:
    sim.set_faults(fake_engine.NeverStarts())
    job = spot(sim, max_run=5, max_wait=10)
    sim.pass_time(100)
    assert words(sim, job) == ["Starting", "Stopping", "MaxWaitTimeExceeded"]
    assert sim.job(job).status() is Status.STOPPED


def test_a_job_that_stands_in_line_for_too_long_is_stopped_there(sim: Simulation) -> None:
    for _ in range(3):
        sim.submit()
    job = spot(sim, max_run=5, max_wait=10)
    sim.pass_time(9)
    assert sim.job(job).state is SecondaryStatus.PENDING
    sim.pass_time(2)
    assert words(sim, job) == ["Stopping", "MaxWaitTimeExceeded"]
    assert sim.job(job).cluster == ""


def test_the_limit_for_waiting_covers_running_and_uploads_what_there_is(sim: Simulation) -> None:
    job = spot(sim, max_run=50, max_wait=50)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(49.6)
    assert sim.job(job).state is SecondaryStatus.STOPPING
    sim.call(lambda: host.end_run(host.runs[job], cause="max_wait", signal=15, **UPLOADED))
    assert sim.job(job).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED
    assert [artifact.name for artifact in sim.job(job).artifacts] == ["model.tar.gz"]


def test_only_running_counts_for_the_run_time_and_everything_for_the_wait(sim: Simulation) -> None:
    job = spot(sim, max_run=HOUR, max_wait=2 * HOUR)
    sim.pass_time(START + 0.5 * HOUR)
    sim.engine.launch_seconds = 25.0
    interrupt(sim, job)
    sim.pass_time(26)
    (host,) = sim.hosts(job)
    assert 0.49 * HOUR < host.runs[job].spec["max_run"] <= 0.5 * HOUR


def test_who_stops_a_job_that_is_being_interrupted_stops_it(sim: Simulation) -> None:
    job = spot(sim)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    interrupt(sim, job)
    sim.stop(job)
    sim.pass_time(sim.limits.interruption_grace + 1)
    assert words(sim, job)[-3:] == ["Interrupted", "Stopping", "Stopped"]
    assert sim.job(job).attempt == 1


def test_two_interruptions_at_once_are_one(sim: Simulation) -> None:
    job = spot(sim)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    interrupt(sim, job)
    interrupt(sim, job)
    sim.pass_time(sim.limits.interruption_grace + START + 1)
    assert (sim.job(job).attempt, words(sim, job).count("Interrupted")) == (2, 1)


def test_code_that_ends_well_before_it_is_told_has_completed(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    (host,) = sim.hosts(job)

    async def both() -> None:
        host.end_run(host.runs[job], exit_code=0)
        sim.controller.facade.interrupt(job)

    sim.run(both())
    sim.pass_time(5)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.job(job).attempt == 1


def test_a_job_whose_verdict_is_on_its_way_is_not_interrupted(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    (host,) = sim.hosts(job)

    async def end_and_interrupt() -> str:
        host.end_run(host.runs[job], exit_code=0)
        while not sim.controller.reconciler.desired_state._is_ending(sim.job(job)):
            assert sim.job(job).state is SecondaryStatus.TRAINING
            await asyncio.sleep(0)
        with pytest.raises(ResourceInUseError) as refused:
            sim.controller.facade.interrupt(job)
        return str(refused.value)

    assert "is ending" in sim.run(end_and_interrupt())
    assert words(sim, job) == ["Starting", "Downloading", "Training", "Completed"]


def test_a_job_of_which_one_host_is_done_can_lose_the_others(sim: Simulation) -> None:
    job = spot(sim, hosts=2)
    sim.pass_time(START)
    one = sim.hosts(job)[0]
    sim.call(lambda: one.end_run(one.runs[job], exit_code=0))
    interrupt(sim, job)
    sim.pass_time(START)
    assert (sim.job(job).attempt, sim.job(job).attempts[0].interrupted) == (2, True)


def test_hosts_that_are_lost_while_they_are_taken_away_before_the_code_began_are_an_interruption(
    sim: Simulation,
) -> None:
    job = spot(sim)
    sim.world.scripts[job] = FakeScript(honours_stop=False, starts_after=30)
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.DOWNLOADING
    interrupt(sim, job)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(START)
    record = sim.job(job)
    assert (record.attempt, record.placements, record.goal, record.state) == (
        2,
        1,
        DesiredState.RUN,
        SecondaryStatus.DOWNLOADING,
    )


def test_code_that_has_failed_before_it_was_told_is_not_run_again(sim: Simulation) -> None:
    job = spot(sim, hosts=2)
    sim.pass_time(START)
    one = sim.hosts(job)[0]

    async def both() -> None:
        one.end_run(one.runs[job], exit_code=3)
        sim.controller.facade.interrupt(job)

    sim.run(both())
    sim.pass_time(30)
    assert sim.job(job).failure_reason == "AlgorithmError: Exit Code: 3"


def test_a_job_is_refused_an_interruption_that_it_did_not_ask_for_or_that_would_take_nothing(sim: Simulation) -> None:
    other = sim.submit()
    sim.pass_time(START)
    with pytest.raises(ValidationError, match="is not a spot job"):
        sim.call(lambda: sim.controller.facade.interrupt(other))
    done = spot(sim)
    sim.pass_time(START)
    sim.end_job(done)
    with pytest.raises(ResourceInUseError, match="is Completed"):
        sim.call(lambda: sim.controller.facade.interrupt(done))
    waits = spot(sim)
    with pytest.raises(ResourceInUseError, match="is Starting"):
        sim.call(lambda: sim.controller.facade.interrupt(waits))


def test_hosts_that_were_taken_are_never_reused_and_why_says_it(sim: Simulation) -> None:
    job = spot(sim, keep_alive=600)
    sim.pass_time(START)
    taken = sim.job(job).cluster
    interrupt(sim, job)
    sim.pass_time(START)
    assert sim.pool(taken).state is ClusterState.TERMINATED
    assert sim.pool(taken).reason == "A spot interruption reclaimed its hosts."
    assert "Attempt 1 was interrupted: its hosts were released and are never reused." in sim.start_reason(job).notes
    sim.end_job(job)
    # SageMaker does not have this: the hosts of the attempt that completed are kept.
    assert sim.pool(sim.job(job).cluster).state is ClusterState.AVAILABLE


@pytest.mark.parametrize(("draw", "expected"), [(0.0, "Interrupted"), (0.999, "Training")])
def test_an_engine_takes_hosts_away_at_its_rate(sim: Simulation, draw: float, expected: str) -> None:
    job = spot(sim)
    other = sim.submit()
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    sim.world.random_draw = draw
    sim.engine.interruptions_per_hour = 1.0
    sim.pass_time(3)
    assert sim.job(job).state.value == expected
    assert sim.job(other).state is SecondaryStatus.TRAINING


def test_a_rate_of_nothing_takes_nobody(sim: Simulation) -> None:
    job = spot(sim)
    sim.world.random_draw = 0.0
    sim.pass_time(HOUR)
    assert sim.job(job).state is SecondaryStatus.TRAINING


def test_a_controller_that_was_away_makes_up_for_no_interruption(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    sim.engine.interruptions_per_hour = 1.0
    sim.kill_controller()
    sim.pass_time(HOUR)
    sim.world.random_draw = 0.01  # an hour without the controller would be interrupted, a second is not
    sim.restart()
    sim.pass_time(5)
    assert (sim.job(job).state, sim.job(job).attempt) == (SecondaryStatus.TRAINING, 1)


def test_only_runs_that_were_left_to_themselves_are_paid_for(sim: Simulation) -> None:
    kind = "ml.m5.large"
    job = spot(sim, instance_groups=(InstanceGroup(instance_type=kind),))
    sim.pass_time(START + 3 * HOUR)
    interrupt(sim, job)
    sim.pass_time(START + HOUR)
    sim.end_job(job)
    bill = sim.controller.facade.bill(sim.job(job))
    price = sim.limits.catalogue[kind].price_per_hour
    assert price is not None
    assert bill.training_seconds == pytest.approx(4 * HOUR, rel=0.001)
    assert bill.billable_seconds == pytest.approx(HOUR, rel=0.001)
    assert bill.cost == pytest.approx(price, rel=0.001)
    assert bill.savings() == pytest.approx(75, abs=0.1)


def test_the_logs_of_interrupted_attempts_are_kept_apart(sim: Simulation) -> None:
    job = spot(sim)
    for text in (b"first\n", b"second\n"):
        sim.pass_time(START)
        (host,) = sim.hosts(job)
        (host.spool / job / "log").write_bytes(text)
        if text == b"first\n":
            interrupt(sim, job)
    sim.end_job(job)
    logs = sim.folder / "jobs" / job / "logs"
    assert (logs / "algo-1.log").read_bytes() == b"first\n"
    assert (logs / "attempt-2" / "algo-1.log").read_bytes() == b"second\n"


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_neither_loses_nor_doubles_an_interruption(
    sim: Simulation, count: int, before: bool
) -> None:
    job = spot(sim)
    sim.pass_time(START)
    sim.kill_controller_at_write(count, before=before)
    interrupt(sim, job)
    sim.pass_time(5)
    sim.restart()
    sim.pass_time(10)
    # A controller that dies before its first write has not received the request: there was no answer.
    expected = 1 if (count, before) == (1, True) else 2
    assert sim.job(job).attempt == expected
    assert len(sim.world.job_clusters[job]) == expected
    assert words(sim, job).count("Interrupted") == expected - 1
    assert set(sim.world.run_counts.values()) == {1}
    assert not sim.world.overlaps
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("before", [False, True])
def test_a_controller_that_dies_at_any_write_ends_a_wait_that_is_over_once(
    sim: Simulation, count: int, before: bool
) -> None:
    job = spot(sim, max_run=10, max_wait=10)
    sim.world.scripts[job] = FakeScript(starts_after=3)
    sim.pass_time(START + 4)
    sim.kill_controller_at_write(count, before=before)
    sim.pass_time(10)
    sim.restart()
    sim.pass_time(30)
    assert words(sim, job)[-2:] == ["Stopping", "MaxWaitTimeExceeded"]
    assert sim.world.start_counts[job, "algo-1"] == 1


def test_a_host_that_dies_while_it_is_taken_away_is_one_interruption(sim: Simulation) -> None:
    job = spot(sim, retries=0)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    interrupt(sim, job)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(5)
    assert (sim.job(job).attempt, sim.job(job).attempts[0].interrupted) == (2, True)


def test_when_the_clock_is_set_nobody_stands_in_line_longer_or_shorter(sim: Simulation) -> None:
    for _ in range(3):
        sim.submit()
    job = spot(sim, max_run=100, max_wait=100)
    sim.pass_time(10)
    sim.set_clock(86_400.0)
    sim.pass_time(80)
    assert sim.job(job).state is SecondaryStatus.PENDING
    sim.pass_time(20)
    assert sim.job(job).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED


def test_when_the_clock_is_set_nobody_waits_longer_or_shorter(sim: Simulation) -> None:
    job = spot(sim, max_run=100, max_wait=100)
    sim.pass_time(10)
    sim.set_clock(86_400.0)
    sim.pass_time(80)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.pass_time(20)
    assert sim.job(job).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED

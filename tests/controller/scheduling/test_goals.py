"""Goals that come when a job has no hosts, or has ended already: they take nothing away, and change no verdict."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.errors import ResourceInUseError, UnavailableError
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation.simulation import Simulation

START = 0.6
NOTICED = 1.0
"""Seconds until it is known that a host is gone."""
TRAIN = Channel(name="train", source="/data/train")


def spot(sim: Simulation, **fields: Any) -> str:
    return sim.submit(spot=True, channels=(TRAIN,), **fields)


def lose_hosts_before_the_code(sim: Simulation, *troubles: fake_engine.Fault) -> str:
    """Submit a spot job whose hosts are lost while they copy its inputs, and look away until others are looked for."""
    job = sim.new_id()
    sim.world.scripts[job] = FakeScript(starts_after=3_600)
    spot(sim, job_id=job)
    sim.pass_time(START)
    assert sim.job(job).state is SecondaryStatus.DOWNLOADING
    sim.engine.launch_seconds = 20.0
    sim.world.scripts[job] = FakeScript()
    sim.set_faults(*troubles)
    sim.kill_host(sim.hosts(job)[0])
    sim.pass_time(NOTICED)
    assert (sim.job(job).placements, sim.job(job).state) == (2, SecondaryStatus.DOWNLOADING)
    return job


def test_nothing_can_be_taken_from_a_job_whose_lost_hosts_are_being_replaced(sim: Simulation) -> None:
    job = lose_hosts_before_the_code(sim)
    with pytest.raises(ResourceInUseError, match="is waiting for other hosts"):
        sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.world.random_draw = 0.0
    sim.engine.interruptions_per_hour = 1.0
    sim.pass_time(3)
    assert (sim.job(job).goal, sim.job(job).state) == (DesiredState.RUN, SecondaryStatus.DOWNLOADING)
    sim.engine.interruptions_per_hour = 0.0
    sim.pass_time(25)
    sim.end_job(job)
    assert (sim.job(job).state, sim.job(job).attempt) == (SecondaryStatus.COMPLETED, 1)


def test_hosts_that_are_looked_for_again_after_a_refusal_are_none_to_take_and_none_that_ended(sim: Simulation) -> None:
    job = lose_hosts_before_the_code(sim, fake_engine.RefusesTransiently(2))
    assert sim.job(job).cluster == ""
    with pytest.raises(ResourceInUseError, match="is waiting for other hosts"):
        sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.pass_time(30)
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_an_engine_that_cannot_be_made_keeps_no_other_job_from_its_limits(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = spot(sim)
    late = spot(sim, max_run=10, max_wait=10)
    sim.pass_time(START)

    def refuse(_name: str) -> fake_engine.FakeEngine:
        raise UnavailableError("The engine cannot be made.")

    monkeypatch.setattr(sim.controller.reconciler.desired_state, "_engine_of", refuse)
    sim.pass_time(12)
    assert sim.job(late).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED
    assert sim.job(first).state is SecondaryStatus.TRAINING


def test_code_that_failed_has_failed_although_its_wait_is_over_before_the_verdict_can_be_written(
    sim: Simulation,
) -> None:
    job = spot(sim, max_run=20, max_wait=20)
    sim.pass_time(START)
    sim.fill_disk()
    sim.end_job(job, exit_code=3)
    sim.pass_time(30)
    sim.free_disk()
    sim.pass_time(3)
    ended = sim.job(job)
    assert (ended.state, ended.failure_reason) == (SecondaryStatus.FAILED, "AlgorithmError: Exit Code: 3")


def test_code_that_has_ended_is_not_out_of_time_while_its_host_packs_what_it_made(sim: Simulation) -> None:
    job = spot(sim, max_run=20, max_wait=20)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    run = host.runs[job]
    sim.call(lambda: host.send_event({"event": "exited", "job": job, "lease": run.lease, "at": sim.world.clock()}))
    run.drop_timers()  # its limit is over with it
    sim.pass_time(30)
    assert (sim.job(job).goal, sim.job(job).state) == (DesiredState.RUN, SecondaryStatus.TRAINING)
    with pytest.raises(ResourceInUseError, match="is ending"):
        sim.call(lambda: sim.controller.facade.interrupt(job))
    sim.end_job(job, exit_code=3)
    assert sim.job(job).state is SecondaryStatus.FAILED


def test_who_stops_a_job_whose_end_waits_does_not_change_how_it_ended(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    sim.fill_disk()
    sim.end_job(job, exit_code=3, artifacts={"model.tar.gz": b"m"})
    sim.free_disk()
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.stop(job)
    assert (sim.job(job).state, sim.job(job).goal) == (SecondaryStatus.STOPPING, DesiredState.STOP)
    sim.pass_time(5)
    assert sim.job(job).state is SecondaryStatus.FAILED


def test_who_stops_a_job_whose_host_packs_what_it_made_does_not_change_how_it_ended(sim: Simulation) -> None:
    job = spot(sim)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    run = host.runs[job]
    sim.call(lambda: host.send_event({"event": "exited", "job": job, "lease": run.lease, "at": sim.world.clock()}))
    sim.stop(job)
    sim.end_job(job, exit_code=3)
    sim.pass_time(3)
    assert (sim.job(job).state, sim.job(job).failure_reason) == (SecondaryStatus.FAILED, "AlgorithmError: Exit Code: 3")


def stop_at_its_end(sim: Simulation, job: str, **end: Any) -> None:
    """Let the code of a job end, and stop the job before its outputs are collected."""
    (host,) = sim.hosts(job)

    async def both() -> None:
        host.end_run(host.runs[job], **end)
        while not sim.controller.reconciler.desired_state._is_ending(sim.job(job)):
            assert sim.job(job).state is SecondaryStatus.TRAINING
            await asyncio.sleep(0)
        sim.controller.facade.stop(job)
        assert sim.job(job).goal is DesiredState.STOP

    sim.run(both())
    sim.pass_time(3)


def test_who_stops_a_job_whose_outputs_are_on_their_way_does_not_change_how_it_ended(sim: Simulation) -> None:
    job = spot(sim)
    sim.pass_time(START)
    stop_at_its_end(sim, job, exit_code=3, artifacts={"model.tar.gz": b"m"})
    ended = sim.job(job)
    assert (ended.state, ended.failure_reason) == (SecondaryStatus.FAILED, "AlgorithmError: Exit Code: 3")
    assert [artifact.name for artifact in ended.artifacts] == ["model.tar.gz"]


def test_who_stops_a_job_that_was_about_to_begin_again_stops_it(sim: Simulation) -> None:
    job = sim.submit(retries=3)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    stop_at_its_end(sim, job, cause="host")
    assert not host.alive
    assert (sim.job(job).state, sim.job(job).attempt) == (SecondaryStatus.STOPPED, 1)


@pytest.mark.parametrize("away", [30, 4_000], ids=["the host keeps it", "only the disk keeps it"])
def test_code_that_failed_while_no_controller_lived_has_failed_although_its_wait_was_over_later(
    sim: Simulation, away: float
) -> None:
    job = spot(sim, max_run=20, max_wait=20)
    sim.pass_time(START)
    sim.kill_controller()
    sim.pass_time(5)
    sim.end_job(job, exit_code=3)
    sim.pass_time(away)
    sim.restart()
    sim.pass_time(10)
    ended = sim.job(job)
    assert (ended.state, ended.failure_reason) == (SecondaryStatus.FAILED, "AlgorithmError: Exit Code: 3")


def test_a_wait_that_was_over_while_no_controller_lived_is_over_for_code_that_failed_after_it(sim: Simulation) -> None:
    job = spot(sim, max_run=20, max_wait=20)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    sim.kill_controller()
    host.runs[job].drop_timers()
    sim.pass_time(25)
    sim.end_job(job, exit_code=3)
    sim.restart()
    sim.pass_time(3)
    assert sim.job(job).state is SecondaryStatus.MAX_WAIT_TIME_EXCEEDED


@pytest.mark.parametrize(("exits_first", "state"), [(True, SecondaryStatus.FAILED), (False, SecondaryStatus.STOPPED)])
def test_who_stops_a_job_and_whose_controller_dies_gets_what_came_first(
    sim: Simulation, exits_first: bool, state: SecondaryStatus
) -> None:
    job = spot(sim)
    sim.world.scripts[job] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    run = host.runs[job]
    if exits_first:
        run.at["exited"] = sim.world.clock()
        sim.call(lambda: host.send_event({"event": "exited", "job": job, "lease": run.lease, "at": sim.world.clock()}))
    sim.pass_time(1)
    sim.stop(job)
    sim.pass_time(1)
    sim.restart()
    sim.end_job(job, exit_code=3)
    sim.pass_time(3)
    assert sim.job(job).state is state


def test_code_that_failed_by_itself_is_billed_although_its_hosts_were_taken_before_its_verdict(sim: Simulation) -> None:
    job = spot(sim, hosts=2)
    sim.pass_time(START + 3_600)
    one = sim.hosts(job)[0]

    async def both() -> None:
        one.end_run(one.runs[job], exit_code=3)
        sim.controller.facade.interrupt(job)

    sim.run(both())
    sim.pass_time(30)
    assert sim.job(job).failure_reason == "AlgorithmError: Exit Code: 3"
    bill = sim.controller.facade.bill(sim.job(job))
    assert bill.billable_seconds == bill.training_seconds >= 3_600

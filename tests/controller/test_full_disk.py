"""The disk of the records is full for a while: nothing is half-created, what runs goes on, and later all is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.fencing import RecordsError
from jupyter_smx.model.cluster import ClusterState
from jupyter_smx.model.status import Goal, SecondaryStatus
from jupyter_smx.testing.fake_host import Script

if TYPE_CHECKING:
    from jupyter_smx.testing.simulation import Simulation


def test_a_submission_is_refused_with_a_sentence_and_nothing_is_there_of_it(sim: Simulation) -> None:
    sim.fill_disk()
    job = sim.new_id()
    with pytest.raises(RecordsError, match=r"No space left.*free some space"):
        sim.submit(job_id=job)
    assert (sim.controller.books.jobs, sim.controller.books.clusters) == ({}, {})
    sim.make_room()
    assert sim.controller.store.job(job) is None
    assert sim.world.hosts == {}
    sim.submit(job_id=job)
    sim.pass_time(1.0)
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_submission_onto_a_warm_pool_that_is_refused_leaves_the_pool_as_it_was(sim: Simulation) -> None:
    first = sim.finish(keep_alive=600)
    (before,) = sim.pools()
    sim.fill_disk()
    with pytest.raises(RecordsError):
        sim.submit()
    assert sim.pools() == [before]
    sim.make_room()
    second = sim.finish(keep_alive=600)
    told = sim.job(first).warm_pool
    assert told is not None
    assert told.reused_by_job == sim.job(second).name


def test_a_job_that_ends_meanwhile_has_its_verdict_when_there_is_room(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(1.0)
    sim.fill_disk()
    sim.end_job(job)
    sim.pass_time(30.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.make_room()
    sim.pass_time(3.0)
    ended = sim.job(job)
    assert (ended.state, sim.world.starts[job, "algo-1"]) == (SecondaryStatus.COMPLETED, 1)
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1


def test_a_first_line_that_could_not_be_written_down_is_told_later(sim: Simulation) -> None:
    job = sim.new_id()
    sim.world.scripts[job] = Script(starts_after=5.0)
    sim.submit(job_id=job)
    sim.pass_time(2.0)
    sim.fill_disk()
    sim.pass_time(10.0)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.make_room()
    sim.pass_time(2.0)
    told = sim.job(job)
    assert told.state is SecondaryStatus.TRAINING
    assert told.timings["first_line"] == pytest.approx(sim.world.clock() - 8.5, abs=1.0), "when it was, not when told"
    sim.end_job(job)


@pytest.mark.parametrize("moment", [0.0, 0.1, 0.3, 0.6])
def test_hosts_that_come_up_meanwhile_are_found_again_and_launched_once(sim: Simulation, moment: float) -> None:
    job = sim.submit()
    sim.pass_time(moment)
    sim.fill_disk()
    sim.pass_time(20.0)
    sim.make_room()
    sim.pass_time(40.0)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert set(sim.world.launches.values()) == {1}
    sim.end_job(job)
    assert sim.job(job).state is SecondaryStatus.COMPLETED


def test_a_stop_is_refused_and_can_be_said_again(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(1.0)
    sim.fill_disk()
    with pytest.raises(RecordsError):
        sim.stop(job)
    assert sim.job(job).goal is Goal.RUN
    sim.make_room()
    sim.stop(job)
    sim.pass_time(1.0)
    assert sim.job(job).state is SecondaryStatus.STOPPED


def test_a_pool_ends_in_its_time_although_that_cannot_be_written_down(sim: Simulation) -> None:
    sim.finish(keep_alive=100)
    sim.fill_disk()
    sim.pass_time(130.0)
    assert sim.world.living() == [], "the hosts ended by their own clock"
    sim.make_room()
    sim.pass_time(60.0)
    assert sim.pools() == []


def test_one_job_that_cannot_be_looked_at_keeps_no_other_from_its_turn(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = sim.submit(), sim.submit()
    sim.pass_time(1.0)
    step = sim.controller.reconciler.step
    seen: list[str] = []

    def stumble(job_id: str) -> None:
        if job_id == bad:
            raise RecordsError("Not now.")
        seen.append(job_id)
        step(job_id)

    monkeypatch.setattr(sim.controller.reconciler, "step", stumble)
    sim.pass_time(3.0)
    assert seen.count(good) >= 2
    monkeypatch.undo()
    for job in (bad, good):
        sim.end_job(job)

"""Broken streams, dead hosts, stale news and dead controllers: code runs once or never, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.status import DesiredState, SecondaryStatus, Status
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import Controller, Simulation

START = 0.6


# Streams and hosts


def test_a_job_whose_hosts_die_over_its_inputs_begins_again_and_only_so_many_times(sim: Simulation) -> None:
    job = sim.submit()
    sim.world.scripts[job] = FakeScript(starts_after=30)
    for placement in (1, 2, 3):
        sim.pass_time(START)
        assert (sim.job(job).attempt, sim.job(job).placements) == (1, placement)
        assert sim.job(job).state is not SecondaryStatus.TRAINING
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(0.1)
    assert sim.world.start_counts == {}
    assert sim.job(job).failure_reason == "InternalServerError: Its hosts were lost before the code began."
    assert sim.world.live_hosts() == []


@pytest.mark.parametrize("is_refused", [False, True], ids=["a reason", "a refusal"])
def test_a_job_whose_code_cannot_begin_says_how_its_hosts_ended(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """The first zygote of a container may die after the controller has connected, and before a job is there."""

    async def exit_reason(_cluster: str, host: str) -> str:
        if is_refused or host == "algo-1":
            raise RefusedError("There is no Python.")
        return "its container ended with exit code 1."

    monkeypatch.setattr(sim.engine, "exit_reason", exit_reason)
    job = sim.submit(hosts=2)
    sim.world.scripts[job] = FakeScript(starts_after=30)
    for _placement in range(3):
        sim.pass_time(START)
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(0.1)
    reason = "InternalServerError: Its hosts were lost before the code began."
    how = "" if is_refused else " Host algo-2: its container ended with exit code 1."
    assert sim.job(job).failure_reason == reason + how
    notes = [note for note in sim.start_reason(job).notes if note.startswith("Lost before its code began")]
    assert all(note.endswith(how) for note in notes)
    assert notes


def test_a_broken_stream_changes_nothing_for_the_job(sim: Simulation) -> None:
    job = sim.submit(hosts=2)
    sim.pass_time(START)
    for _ in range(5):
        sim.break_streams(sim.hosts(job)[1])
    sim.pass_time(1)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert set(sim.world.start_counts.values()) == {1}


def test_a_pool_that_cannot_be_reached_is_not_taken(sim: Simulation) -> None:
    """Bug 12 of the catalogue: a pool is ready when its agents answered, not when it is said to run."""
    sim.run_to_end(keep_alive=600)
    sim.set_faults(fake_engine.DropsStreams())
    sim.break_streams(sim.world.live_hosts()[0])
    job = sim.submit()
    why = sim.start_reason(job)
    assert why.start == "cold"
    assert [(each.field, each.found) for each in why.differences] == [("status", "not reachable")]


def test_a_job_is_given_to_its_hosts_only_when_all_of_them_answered(sim: Simulation) -> None:
    job = sim.submit(hosts=2)
    sim.pass_time(START / 2)
    assert all(not host.runs for host in sim.hosts(job))
    assert sim.job(job).state is SecondaryStatus.STARTING


def test_a_stop_that_was_lost_with_its_stream_is_said_again(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.set_faults(fake_engine.DropsStreams())
    sim.break_streams(sim.hosts(job)[0])
    sim.stop(job)
    assert sim.job(job).goal is DesiredState.STOP
    sim.pass_time(1)
    assert sim.job(job).state is SecondaryStatus.STOPPING
    sim.set_faults()
    sim.pass_time(31)
    assert sim.job(job).state is SecondaryStatus.STOPPED


def test_a_stop_that_was_in_the_stream_when_it_broke_is_said_again(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)

    def stop_and_break() -> None:
        sim.controller.facade.stop(job)
        sim.hosts(job)[0].close_streams()

    sim.call(stop_and_break)
    sim.pass_time(2)
    assert sim.job(job).state is SecondaryStatus.STOPPED


def test_a_job_that_was_in_the_stream_when_it_broke_is_given_again(sim: Simulation) -> None:
    host = sim.hosts(sim.run_to_end(keep_alive=600))[0]
    job = sim.new_id()

    def submit_and_break() -> None:
        sim.controller.facade.submit(job, sim.spec())
        host.close_streams()

    sim.call(submit_and_break)
    sim.pass_time(2)
    assert sim.world.start_counts[job, "algo-1"] == 1
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


def test_a_job_whose_hosts_died_before_its_code_began_begins_again_elsewhere(sim: Simulation) -> None:
    job = sim.submit(keep_alive=60)
    sim.pass_time(0.4)
    sim.call(lambda: sim.world.release(sim.job(job).cluster))
    sim.pass_time(10)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sum(sim.world.start_counts.values()) == 1


def test_a_job_that_ended_on_a_host_that_died_has_its_record_read_from_the_disk(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    host = sim.hosts(job)[0]

    def end_and_die() -> None:
        host.close_streams()
        host.end_run(host.runs[job], exit_code=0, artifacts={"model.tar.gz": b"model"})
        host.crash()

    sim.call(end_and_die)
    sim.pass_time(6)
    found = sim.job(job)
    assert found.status() is Status.COMPLETED
    assert [artifact.name for artifact in found.artifacts] == ["model.tar.gz"]
    assert found.warm_pool is not None
    assert found.warm_pool.status.value == "Terminated"


def test_the_last_words_of_a_host_that_was_lost_come_home_from_what_it_left(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    log = sim.world.spool(host.cluster, host.name) / job / "log"
    log.write_bytes(log.read_bytes() + b"the last line\n")
    sim.kill_host(host)
    sim.pass_time(6)
    assert sim.job(job).status() is Status.FAILED
    home = JobFolder(sim.folder / "jobs", job).log("algo-1", 1)
    assert home.read_bytes().endswith(b"the last line\n")


def test_one_job_whose_engine_cannot_be_had_holds_up_nobody(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart without the package of an engine for which a job waited."""
    reconciler, books = sim.controller.reconciler, sim.controller.live_state

    def engine_of(name: str) -> fake_engine.FakeEngine:
        if name != "fake":
            raise RefusedError(f"engine: {name} is not there.")
        return sim.engine

    first, gone = sim.submit(hosts=2), sim.submit(hosts=2)
    waiting = sim.job(gone)
    sim.call(lambda: books.save(jobs=[replace(waiting, spec=replace(waiting.spec, engine="gone"))]))
    other = sim.submit(hosts=2)
    monkeypatch.setattr(reconciler, "_engine_of", engine_of)
    sim.pass_time(START)
    sim.end_job(first)
    sim.pass_time(START + 1)
    assert other in sim.world.job_clusters
    assert sim.job(gone).state is SecondaryStatus.PENDING
    sim.call(reconciler.tick)


def test_without_a_shared_disk_code_that_may_have_begun_is_not_begun_again() -> None:
    with Simulation(has_remains=False) as sim:
        job = sim.submit()
        sim.pass_time(START)
        sim.kill_host(sim.hosts(job)[0])
        sim.pass_time(6)
        assert sim.job(job).status() is Status.FAILED
        assert "was lost" in sim.job(job).failure_reason
        assert sum(sim.world.start_counts.values()) == 1


# Stale news


@pytest.mark.parametrize("event", ["first_line", "ended", "grew"])
def test_what_is_said_under_an_old_lease_is_not_heard(sim: Simulation, event: str) -> None:
    """Bugs 1 and 3 of the catalogue: a late answer of job N must never be one of N+1, or of N once more."""
    first = sim.run_to_end(keep_alive=600)
    second = sim.submit(keep_alive=600)
    world, now = sim.world, sim.job(second)
    record = {"cause": "exit", "exit_code": 9, "log": 0, "at": {}, "artifacts": []}
    for job, lease in ((first, 1), (second, 1), (second, 3)):
        stale = {"event": event, "job": job, "lease": lease, "record": record, "at": {"first_line": 1.0}, "total": 5}
        sim.call(lambda stale=stale: sim.hosts(second)[0].send_event(stale))
        if job == second:
            # Not even when the stream let it pass.
            sim.call(lambda stale=stale: sim.controller.reconciler.events.on_agent_event(now.cluster, "algo-1", stale))
    assert sim.job(second) == now
    assert world.start_counts[second, "algo-1"] == 1
    sim.end_job(second)
    assert sim.job(second).status() is Status.COMPLETED


def test_two_controllers_on_one_store_never_make_two_pools_and_the_older_one_ends(sim: Simulation) -> None:
    """Bug 11 of the catalogue: two that both think that they are the one."""
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    old = sim.controller
    new = sim.call(lambda: _controller(sim))
    sim.call(new.start)
    sim.end_job(job)
    assert new.live_state.job(job).status() is Status.COMPLETED
    with pytest.raises(FencedError):
        sim.call(lambda: old.facade.submit(sim.new_id(), sim.spec()))
    sim.pass_time(3)
    assert len(new.live_state.clusters) == len(sim.world.live_hosts()) == 1
    assert sum(sim.world.launches.values()) == 1
    sim.call(old.kill)
    sim.loop.run(old.close())
    sim.controller = new


def _controller(sim: Simulation) -> Controller:
    return Controller(sim.world, sim.engine, sim.limits, sim.new_id)


def test_an_old_controller_that_wakes_up_writes_nothing_and_says_that_it_is_over(sim: Simulation) -> None:
    """Bug 3 of the catalogue: a write after the lease is gone."""
    sim.run_to_end(keep_alive=20)
    old = sim.controller
    new = sim.call(lambda: _controller(sim))
    sim.call(new.start)
    sim.pass_time(30)
    assert old.reconciler.fenced_event.is_set()
    assert new.live_state.clusters == {}
    sim.call(old.kill)
    sim.loop.run(old.close())
    sim.controller = new


# Dead controllers


def test_a_job_that_runs_while_the_controller_is_dead_is_found_by_the_next_one(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.kill_controller()
    sim.pass_time(20)
    sim.restart()
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


def test_a_job_that_ended_while_the_controller_was_dead_has_its_verdict_from_the_host(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.kill_controller()
    sim.end_job(job, exit_code=4, artifacts={"model.tar.gz": b"m"})
    sim.pass_time(100)
    sim.restart()
    found = sim.job(job)
    assert found.failure_reason == "AlgorithmError: Exit Code: 4"
    assert len(found.artifacts) == 1
    expires = sim.pools()[0].expires_at
    assert expires is not None
    assert expires - sim.world.clock() == pytest.approx(500, abs=1), "the pool is idle since the job ended"


def test_a_pool_that_died_with_the_controller_is_no_pool_for_the_next_one(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=100)
    sim.kill_controller()
    sim.pass_time(200)
    sim.restart()
    assert sim.pools() == []
    pool = sim.job(job).warm_pool
    assert pool is not None
    assert pool.status.value == "Terminated"
    assert sim.start_reason(sim.submit()).start == "cold"


def test_an_end_in_the_very_moment_in_which_an_action_begins_can_be_waited_for(sim: Simulation) -> None:
    def submit_and_die() -> None:
        sim.controller.facade.submit(sim.new_id(), sim.spec())
        sim.controller.kill()

    sim.call(submit_and_die)
    sim.call(sim.controller.reconciler.settle)


def _story(sim: Simulation, job: str) -> None:
    """Play a story with every kind of write; the controller is started again whenever it is dead."""

    def on() -> None:
        if sim.controller.is_dead:
            sim.restart()

    wish: dict[str, Any] = {"keep_alive": 40, "hosts": 2}
    sim.submit(job_id=job, **wish)
    on()
    sim.submit(job_id=job, **wish)
    on()
    sim.pass_time(2)
    on()
    sim.pass_time(2)
    sim.end_job(job, artifacts={"outputs/o/file": b"m"})
    on()
    sim.pass_time(5)
    on()
    other = sim.new_id()
    for _ in range(2):
        sim.submit(job_id=other, keep_alive=0, role="b")
        on()
    sim.pass_time(2)
    on()
    sim.pass_time(2)
    sim.end_job(other)
    on()
    sim.pass_time(2)
    on()
    sim.pass_time(120)
    on()
    sim.pass_time(120)
    on()
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.job(other).status() is Status.COMPLETED


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 22))
def test_a_controller_that_dies_at_any_write_loses_nothing_and_does_nothing_twice(
    sim: Simulation, write: int, before: bool
) -> None:
    job = sim.new_id()
    sim.kill_controller_at_write(write, before=before)
    _story(sim, job)
    assert set(sim.world.start_counts.values()) == {1}
    assert set(sim.world.launches.values()) == {1}
    assert (sim.pools(), sim.world.live_hosts()) == ([], [])


def test_the_story_above_has_as_many_writes_as_are_tried(sim: Simulation) -> None:
    sim.kill_controller_at_write(1_000, before=True)
    _story(sim, sim.new_id())
    left = sim.controller.store.writes_left
    assert left is not None
    assert 1_000 - left <= 21


def test_an_error_that_nobody_foresaw_at_the_end_of_a_job_does_not_hang_it(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = sim.submit()
    sim.pass_time(START)
    with monkeypatch.context() as broken:
        broken.setattr("jupyter_smx.controller.scheduling.finalize.job_outcome", None)
        sim.end_job(job)
        sim.pass_time(3)
    assert sim.bugs, "and it is said"
    sim.bugs.clear()
    sim.pass_time(2)
    assert sim.job(job).status() is Status.COMPLETED

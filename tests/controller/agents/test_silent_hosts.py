"""Hosts that live and cannot be reached: their job says why, goes on when they answer, and ends when it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.status import SecondaryStatus, Status, message_of
from jupyter_smx.model.text import format_moment
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_world import EPOCH
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 0.6
SILENT = f"Its hosts are not reachable since {format_moment(EPOCH, EPOCH)}: "
WHY = f"{SILENT}Host algo-1 is paused. Let it go on."
USUAL = message_of(SecondaryStatus.TRAINING)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def said(sim: Simulation, job: str) -> str:
    return sim.job(job).transitions[-1].status_message


def notes(sim: Simulation, job: str) -> list[str]:
    why = sim.job(job).why
    return [note for note in why.notes if "reachable" in note] if why else []


def paused(sim: Simulation, times: float = fake_engine.NEVER) -> str:
    """Give a job whose host does not answer any more."""
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    assert said(sim, job) == USUAL
    sim.set_faults(fake_engine.PausedHosts(times))
    sim.break_streams(sim.hosts(job)[0])
    return job


def test_a_job_says_why_nothing_is_heard_of_it_until_it_is_heard_again(sim: Simulation) -> None:
    job = paused(sim)
    sim.pass_time(5)
    assert said(sim, job) == WHY
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert notes(sim, job) == [WHY]
    sim.pass_time(120)
    assert said(sim, job) == WHY, "the moment is that of the last contact"
    sim.set_faults()
    sim.pass_time(31)
    assert said(sim, job) == USUAL
    assert notes(sim, job) == []
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sum(sim.world.start_counts.values()) == 1


def test_another_controller_takes_it_back_as_well(sim: Simulation) -> None:
    job = paused(sim)
    sim.pass_time(5)
    sim.restart()
    sim.pass_time(5)
    assert said(sim, job) == WHY
    sim.set_faults()
    sim.pass_time(31)
    assert said(sim, job) == USUAL


def test_what_was_said_before_is_said_again(sim: Simulation) -> None:
    warm = sim.run_to_end(keep_alive=600)
    job = sim.new_id()
    sim.world.script(job).starts_after = 1_000.0
    sim.submit(job_id=job, keep_alive=600)
    before = said(sim, job)
    assert before != message_of(SecondaryStatus.STARTING)
    sim.set_faults(fake_engine.PausedHosts())
    sim.break_streams(sim.hosts(warm)[0])
    sim.pass_time(5)
    assert said(sim, job) == WHY
    sim.set_faults()
    sim.pass_time(31)
    [row] = [row for row in sim.job(job).transitions if row.status is SecondaryStatus.STARTING]
    assert row.status_message == before


def test_an_idle_pool_whose_hosts_are_unreachable_says_why_until_they_answer(sim: Simulation) -> None:
    job = sim.run_to_end(keep_alive=600)
    sim.pass_time(1)
    [pool] = sim.pools(ClusterState.AVAILABLE)
    state = sim.controller.live_state
    assert state.pool_summary(pool).unreachable == ""
    sim.set_faults(fake_engine.PausedHosts())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(5)
    assert state.pool_summary(pool).unreachable == WHY
    sim.set_faults()
    sim.pass_time(31)
    assert state.pool_summary(pool).unreachable == ""
    told = [event.pool.unreachable for event in sim.controller.facade.changes(0, 100).events if event.pool]
    assert [*dict.fromkeys(told)] == ["", WHY]
    assert told[-1] == ""


def test_a_stream_that_breaks_once_is_no_news(sim: Simulation) -> None:
    job = paused(sim, times=1)
    sim.pass_time(0.1)
    assert said(sim, job) == USUAL
    sim.pass_time(5)
    assert said(sim, job) == USUAL
    assert sim.controller.agents.is_open(sim.job(job).cluster)


def test_who_cannot_be_told_to_end_is_ended_when_the_grace_is_over(sim: Simulation) -> None:
    job = paused(sim)
    sim.pass_time(LIMITS.grace + 5)  # a silence from before the wish counts for nothing
    sim.stop(job)
    sim.pass_time(LIMITS.grace - 2)
    assert sim.job(job).status() is Status.STOPPING
    assert sim.hosts(job)[0].alive
    sim.pass_time(40)
    assert sim.job(job).status() is Status.STOPPED
    assert sim.world.live_hosts() == []


def test_who_answers_within_the_grace_is_told_politely(sim: Simulation) -> None:
    job = paused(sim)
    sim.pass_time(1)
    sim.stop(job)
    sim.set_faults()
    sim.pass_time(LIMITS.grace - 2)
    record = sim.job(job)
    assert record.status() is Status.STOPPED
    assert [(end.host, end.cause) for end in record.hosts] == [("algo-1", "stopped")]


def test_code_that_was_done_before_it_was_stopped_has_its_own_end(sim: Simulation) -> None:
    job = paused(sim)
    sim.end_job(job, exit_code=3)
    sim.stop(job)
    sim.pass_time(LIMITS.grace + 40)
    assert [end.exit_code for end in sim.job(job).hosts] == [3]
    assert sim.world.live_hosts() == []


AWAY = f"{SILENT}The engine cannot be reached."


class AwayAtTheLaunch(fake_engine.Outage):
    """Goes away when it is asked for hosts, or right after it made them."""

    def __init__(self, when: str) -> None:
        self.when = when
        self.is_away = False

    def on_call(self) -> None:
        if self.is_away:
            super().on_call()

    async def before_launch(self) -> None:
        await self._go("before")

    async def while_starting(self, *_what: object) -> None:
        await self._go("after")

    async def _go(self, when: str) -> None:
        if when == self.when:
            self.is_away = True
            super().on_call()


WHEN = pytest.mark.parametrize("when", ["before", "after"])


@WHEN
def test_an_engine_that_goes_away_at_a_launch_lets_the_job_wait_with_the_reason(sim: Simulation, when: str) -> None:
    """Whether hosts came of it is not known, so no verdict is given: they may still come."""
    sim.set_faults(AwayAtTheLaunch(when))
    job = sim.submit(keep_alive=600)
    sim.pass_time(5)
    assert said(sim, job) == "Waiting at the engine fake: The engine cannot be reached."
    sim.pass_time(LIMITS.unreachable_limit + 60)
    assert sim.job(job).state is SecondaryStatus.STARTING
    sim.stop(job)
    sim.pass_time(5)
    assert sim.job(job).status() is Status.STOPPED
    sim.restart()
    sim.pass_time(60)
    sim.set_faults()
    sim.pass_time(31)
    assert sim.world.live_hosts() == []
    assert sim.pools() == []
    assert sim.world.start_counts == {}


@WHEN
def test_a_job_is_stopped_whose_engine_went_away_at_its_launch(sim: Simulation, when: str) -> None:
    sim.set_faults(AwayAtTheLaunch(when))
    job = sim.submit(keep_alive=600)
    sim.pass_time(5)
    sim.stop(job)
    sim.pass_time(31)
    assert sim.job(job).status() is Status.STOPPED
    sim.set_faults()
    sim.pass_time(60)
    assert sim.world.live_hosts() == []
    assert sim.pools() == []
    assert sim.world.start_counts == {}


@WHEN
def test_a_launch_goes_on_when_its_engine_is_back(sim: Simulation, when: str) -> None:
    sim.set_faults(AwayAtTheLaunch(when))
    job = sim.submit()
    sim.pass_time(5)
    sim.set_faults()
    sim.pass_time(60)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.end_job(job)
    sim.pass_time(5)
    assert sim.job(job).status() is Status.COMPLETED
    assert sum(sim.world.start_counts.values()) == 1


def away(sim: Simulation) -> str:
    """Give a job whose engine is stopped in the middle of it, with all hosts."""
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.set_faults(fake_engine.Outage())
    sim.kill_host(sim.hosts(job)[0])
    return job


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("has_ended", [False, True])
def test_a_job_that_is_stopped_ends_also_while_its_engine_is_away(
    sim: Simulation, *, restarts: bool, has_ended: bool
) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    host = sim.hosts(job)[0]
    sim.set_faults(fake_engine.Outage())
    sim.break_streams(host)
    if has_ended:
        sim.end_job(job, exit_code=3)
    sim.kill_host(host)
    sim.pass_time(5)
    sim.stop(job)
    sim.pass_time(LIMITS.grace + 31)
    if restarts:
        sim.restart()
        sim.pass_time(5)
    assert sim.job(job).status() is (Status.FAILED if has_ended else Status.STOPPED)
    assert [end.exit_code for end in sim.job(job).hosts] == [3 if has_ended else None]
    [pool] = sim.pools()
    assert pool.state is ClusterState.RELEASING
    other = sim.submit(keep_alive=600)
    sim.pass_time(5)
    assert sim.job(other).cluster != pool.id
    sim.stop(other)
    sim.pass_time(31)
    sim.set_faults()
    sim.pass_time(60)
    assert sim.world.live_hosts() == []
    assert sim.pools() == []


def test_a_job_that_nobody_stopped_waits_for_its_engine_since_its_code_may_run(sim: Simulation) -> None:
    job = away(sim)
    sim.pass_time(LIMITS.unreachable_limit + 60)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    assert said(sim, job) == AWAY
    sim.set_faults()
    sim.pass_time(60)
    assert sim.job(job).status() is Status.FAILED
    assert sim.world.live_hosts() == []


def test_a_controller_that_dies_between_letting_a_job_go_and_its_end_ends_it_later(sim: Simulation) -> None:
    job = away(sim)
    sim.stop(job)
    for count in range(1, 9):
        sim.kill_controller_at_write(count, before=bool(count % 2))
        sim.pass_time(LIMITS.grace + 31)
        sim.restart()
    sim.pass_time(LIMITS.grace + 31)
    assert sim.job(job).status() is Status.STOPPED
    sim.set_faults()
    sim.pass_time(60)
    assert sim.world.live_hosts() == []


def test_a_job_whose_warm_hosts_were_waited_for_in_vain_says_so_in_its_reason(sim: Simulation) -> None:
    """It began cold after five minutes, because there was no warm pool, said its reason."""
    warm = sim.run_to_end(keep_alive=600)
    job = sim.new_id()
    sim.world.script(job).starts_after = 1_000.0
    sim.submit(job_id=job)
    sim.pass_time(START)
    sim.set_faults(fake_engine.PausedHosts())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(LIMITS.unreachable_limit)
    while sim.job(job).placements == 1 and sim.world.clock() < EPOCH + 400:
        sim.pass_time(1)
    sim.set_faults()
    sim.world.script(job).starts_after = 0.0
    sim.pass_time(60)
    assert sim.job(job).placements == 2
    assert sim.start_reason(job).start == "cold"
    [note] = [note for note in sim.start_reason(job).notes if "Lost" in note]
    assert note.startswith(f"Lost before its code began: the hosts of pool {sim.start_reason(warm).pool} after 5 min")
    assert note.endswith("(Host algo-1 is paused).")
    assert "paused" not in said(sim, job)


STOPPED = f"its agent, process {fake_engine.STOPPED_PID}, is stopped (SIGSTOP). `kill -CONT {fake_engine.STOPPED_PID}`"


def frozen(sim: Simulation) -> tuple[str, Any]:
    """Give a job whose agent is stopped: its streams stay open and are silent."""
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    sim.call(host.thawed.clear)
    return job, host


def test_a_host_whose_agent_is_stopped_is_called_that_before_its_stream_is_given_up(sim: Simulation) -> None:
    job, host = frozen(sim)
    sim.pass_time(12)
    assert said(sim, job).startswith("Its hosts are not reachable since ")
    assert f"Host algo-1 has not answered for 10 s: {STOPPED}" in said(sim, job)
    (pool,) = sim.call(sim.controller.facade.pools)
    assert STOPPED in pool.unreachable
    sim.call(host.thawed.set)
    sim.pass_time(1)
    assert said(sim, job) == USUAL
    assert notes(sim, job) == []
    (pool,) = sim.call(sim.controller.facade.pools)
    assert pool.unreachable == ""
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED


def test_a_reason_that_an_engine_learns_later_is_added_to_the_silence(sim: Simulation) -> None:
    sim.engine.sees_stopped = False
    job, host = frozen(sim)
    sim.pass_time(12)
    assert said(sim, job).endswith("Host algo-1 has not answered for 10 s.")
    moment = said(sim, job).partition(": ")[0]
    sim.engine.sees_stopped = True
    sim.pass_time(2)
    assert STOPPED in said(sim, job)
    assert said(sim, job).startswith(moment), "the moment stays that of the last contact"
    sim.engine.sees_stopped = False
    sim.pass_time(1)
    assert STOPPED in said(sim, job), "what a look does not tell is not taken back"
    sim.call(host.thawed.set)
    sim.pass_time(1)
    assert said(sim, job) == USUAL
    sim.end_job(job)


def test_a_stopped_agent_is_still_called_that_when_its_stream_was_given_up(sim: Simulation) -> None:
    job, host = frozen(sim)
    sim.pass_time(60)
    assert f"Host algo-1 does not answer: {STOPPED}" in said(sim, job)
    sim.call(host.thawed.set)
    sim.pass_time(40)
    assert said(sim, job) == USUAL
    assert sim.job(job).state is SecondaryStatus.TRAINING


def test_a_controller_that_finds_a_stopped_agent_says_so_at_its_first_try(sim: Simulation) -> None:
    job, host = frozen(sim)
    sim.kill_controller()
    sim.restart()
    sim.pass_time(15)
    assert f"Host algo-1 does not answer: {STOPPED}" in said(sim, job)
    sim.call(host.thawed.set)
    sim.pass_time(40)
    assert said(sim, job) == USUAL


def test_a_host_that_goes_silent_while_the_disk_is_full_holds_no_other_up_and_is_named_later(sim: Simulation) -> None:
    job, host = frozen(sim)
    other = sim.submit()
    sim.pass_time(START)
    sim.fill_disk()
    sim.pass_time(12)
    sim.call(sim.controller.reconciler.cluster_reconciler.reconcile_all)
    sim.free_disk()
    sim.pass_time(2)
    assert STOPPED in said(sim, job)
    (pool,) = (row for row in sim.call(sim.controller.facade.pools) if row.unreachable)
    assert STOPPED in pool.unreachable
    sim.call(host.thawed.set)
    sim.pass_time(1)
    assert said(sim, job) == USUAL
    sim.end_job(job)
    sim.end_job(other)


@pytest.mark.parametrize("is_full", [False, True])
def test_the_end_of_a_disk_wait_leaves_a_host_that_does_not_answer_named(sim: Simulation, is_full: bool) -> None:
    job = sim.submit(hosts=2, keep_alive=600)
    sim.pass_time(START)
    silent, waiting = sim.hosts(job)
    news = {"event": "disk_wait", "job": job, "lease": waiting.runs[job].lease}
    if not is_full:
        sim.call(lambda: waiting.send_event({**news, "reason": "The disk of /tmp is full."}))
        assert said(sim, job).startswith("It waits for a disk")
    sim.call(silent.thawed.clear)
    sim.pass_time(12)
    assert STOPPED in said(sim, job)
    sim.call(lambda: waiting.send_event({**news, "reason": "The disk of /tmp is full." if is_full else ""}))
    assert STOPPED in said(sim, job)
    sim.call(silent.thawed.set)
    sim.pass_time(1)
    assert said(sim, job) == ("It waits for a disk of its host. The disk of /tmp is full." if is_full else USUAL)
    sim.end_job(job)

"""Jobs through queues, many hosts, refusing engines and impossible requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.errors import RecordsError
from jupyter_smx.controller.scheduling.finalize import FORGET_DELAY
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.controller.transfer.stage_out import OutputStager
from jupyter_smx.model.errors import ResourceInUseError, ResourceLimitError
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes import fake_engine
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

START = 0.6


def positions(sim: Simulation) -> dict[str, int | None]:
    rows = sim.call(lambda: sim.controller.facade.jobs(100, "", None))
    return {row.id: row.queue_position for row in rows}


# The queue


def test_a_full_machine_queues_and_says_the_position_which_moves_up(sim: Simulation) -> None:
    """Bug 32 of the catalogue: capacity that is reached is a queue and no failure."""
    jobs = [sim.submit(hosts=2) for _ in range(4)]
    assert [positions(sim)[job] for job in jobs] == [None, 1, 2, 3]
    assert sim.start_reason(jobs[1]).sentence.startswith("Queued, position 1.")
    assert "CPUs" in sim.start_reason(jobs[1]).sentence
    sim.pass_time(START)
    sim.end_job(jobs[0])
    assert [positions(sim)[job] for job in jobs] == [None, None, 1, 2]
    sim.stop(jobs[2])
    assert positions(sim)[jobs[3]] == 1


def told_places(sim: Simulation) -> dict[str, int | None]:
    """Give the place that the first event of each job told."""
    events, _, _ = sim.controller.store.events_since(0)
    return {event.job.id: event.job.queue_position for event in reversed(events) if event.job}


def test_the_first_that_is_told_of_a_job_has_its_place_in_the_line(sim: Simulation) -> None:
    jobs = [sim.submit(hosts=2) for _ in range(3)]
    assert [told_places(sim)[job] for job in jobs] == [None, 1, 2]
    sim.submit_array(3, max_concurrent=2)
    last = sim.submit(hosts=2)
    tasks = [task.id for task in sim.call(lambda: sim.controller.facade.jobs(100, "", None)) if task.array]
    places = told_places(sim)
    assert sorted([places[task] for task in tasks], key=str) == [3, 4, None], "the limit leaves the third no turn"
    assert places[last] == positions(sim)[last]


def test_a_job_that_could_not_be_written_down_has_no_place(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    sim.submit(hosts=2)
    with monkeypatch.context() as patched:
        patched.setattr(sim.controller.store, "write", lambda *_, **__: (_ for _ in ()).throw(RecordsError("full")))
        with pytest.raises(RecordsError):
            sim.submit(hosts=2)
    assert sim.controller.live_state.job_queue.queued_jobs("fake") == []
    later = [sim.submit(hosts=2) for _ in range(2)]
    assert [positions(sim)[job] for job in later] == [1, 2]


def test_the_line_is_served_in_the_order_of_submission(sim: Simulation) -> None:
    big, small = sim.submit(hosts=2), [sim.submit() for _ in range(4)]
    order: list[str] = []
    for _ in range(5):
        sim.pass_time(START)
        running = [*dict.fromkeys(run.job for _, run in sim.world.running_jobs())]
        order += [job for job in running if job not in order]
        sim.end_job(running[0])
    assert order == [big, *small]


def test_a_small_job_does_not_overtake_a_big_one_that_waits_before_it(sim: Simulation) -> None:
    sim.submit()
    big, small = sim.submit(hosts=2), sim.submit()
    sim.pass_time(60)
    assert sim.job(big).cluster == ""
    assert sim.job(small).cluster == ""
    assert "older job waits" in sim.start_reason(small).sentence


def test_who_waited_is_told_for_how_long(sim: Simulation) -> None:
    first, second = sim.submit(hosts=2, keep_alive=600), sim.submit(hosts=2, keep_alive=600)
    sim.pass_time(START + 30)
    sim.end_job(first)
    why = sim.start_reason(second)
    assert why.start == "warm"
    assert why.notes[1:] == ("It waited 30.6 s in the queue.",)


def test_no_more_jobs_wait_than_the_administrator_allows() -> None:
    with Simulation(limits=replace(LIMITS, max_jobs_queued=2)) as sim:
        sim.submit()
        sim.submit()
        with pytest.raises(ResourceLimitError):
            sim.submit()


def test_the_same_wish_with_the_same_id_is_one_job_and_another_wish_is_refused(sim: Simulation) -> None:
    job = sim.submit(keep_alive=60)
    sim.submit(job_id=job, keep_alive=60)
    assert len(sim.controller.live_state.jobs) == 1
    with pytest.raises(ResourceInUseError):
        sim.submit(job_id=job, keep_alive=61)
    sim.pass_time(START)
    sim.end_job(job)
    sim.submit(job_id=job, keep_alive=60)
    assert sim.job(job).status() is Status.COMPLETED
    assert sum(sim.world.start_counts.values()) == 1


# Many hosts


def test_one_host_that_fails_stops_the_others_and_fails_the_job(sim: Simulation) -> None:
    job = sim.submit(hosts=2, keep_alive=60)
    sim.pass_time(START)
    bad = sim.hosts(job)[1]
    sim.call(lambda: bad.end_run(bad.runs[job], exit_code=7))
    found = sim.job(job)
    assert (found.status(), found.failure_reason) == (Status.FAILED, "AlgorithmError: Exit Code: 7")
    assert [(end.host, end.cause) for end in found.hosts] == [("algo-1", "stopped"), ("algo-2", "exit")]


def test_a_job_is_over_when_its_last_host_is_done(sim: Simulation) -> None:
    job = sim.submit(hosts=2)
    sim.pass_time(START)
    one, other = sim.hosts(job)
    sim.call(lambda: one.end_run(one.runs[job], exit_code=0))
    sim.pass_time(500)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.call(lambda: other.end_run(other.runs[job], exit_code=0))
    assert sim.job(job).status() is Status.COMPLETED


def test_outputs_of_all_hosts_are_home_before_the_verdict(sim: Simulation) -> None:
    job = sim.submit(hosts=2, keep_alive=60)
    sim.pass_time(START)
    for host in sim.hosts(job):
        end = {"exit_code": 0, "artifacts": {f"outputs/o/{host.name}.txt": host.name.encode()}}
        sim.call(lambda host=host, end=end: host.end_run(host.runs[job], **end))
    found = sim.job(job)
    assert found.status() is Status.COMPLETED
    assert [artifact.name for artifact in found.artifacts] == ["outputs/o/algo-1.txt", "outputs/o/algo-2.txt"]
    assert SecondaryStatus.UPLOADING in [row.status for row in found.transitions]
    sim.pass_time(FORGET_DELAY)
    assert [list(host.spool.iterdir()) for host in sim.hosts(job)] == [[], []], "what is home is forgotten there"


RESULT = {"result.pkl": b"variables"}


def test_one_write_records_the_verdict_and_that_small_variables_are_home(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    before = sim.controller.store.events_since(0)[1]
    sim.end_job(job, exit_code=0, artifacts=RESULT)
    events, _, _ = sim.controller.store.events_since(before)
    assert [event.job.secondary_status for event in events if event.job] == [SecondaryStatus.COMPLETED]
    found = sim.job(job)
    assert [row.status for row in found.transitions[-2:]] == [SecondaryStatus.UPLOADING, SecondaryStatus.COMPLETED]
    assert found.transitions[-2].end_time == found.transitions[-1].start_time
    assert [Path(artifact.path).read_bytes() for artifact in found.artifacts] == [b"variables"]


def test_small_variables_that_cannot_be_brought_home_now_are_a_step_since_the_first_try(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_what: object) -> None:
        raise StagingError("The disk is full.", transient=True)

    job = sim.submit()
    sim.pass_time(START)
    with monkeypatch.context() as patched:
        patched.setattr(OutputStager, "stage_out", refuse)
        sim.end_job(job, exit_code=0, artifacts=RESULT)
        first = sim.job(job).transitions[-1]
        assert first.status is SecondaryStatus.UPLOADING
        sim.pass_time(20)
        assert sim.job(job).transitions[-1].start_time == first.start_time
    sim.pass_time(START + 1)
    found = sim.job(job)
    assert [row.status for row in found.transitions[-2:]] == [SecondaryStatus.UPLOADING, SecondaryStatus.COMPLETED]
    assert found.transitions[-2].start_time == first.start_time


def test_a_verdict_that_cannot_be_written_now_has_the_step_of_variables_since_the_first_try(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.fill_disk()
    ended_at = sim.world.clock()
    sim.end_job(job, exit_code=0, artifacts=RESULT)
    sim.pass_time(20)
    sim.free_disk()
    sim.pass_time(START + 1)
    (uploading,) = [row for row in sim.job(job).transitions if row.status is SecondaryStatus.UPLOADING]
    assert uploading.start_time == pytest.approx(ended_at, abs=1)


def test_the_step_of_small_variables_does_not_begin_after_its_end(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_out = OutputStager.stage_out

    async def set_the_clock_back(*what: Any) -> Any:
        sim.world.set_clock(-1_000)
        return await stage_out(*what)

    job = sim.submit()
    sim.pass_time(2_000)
    monkeypatch.setattr(OutputStager, "stage_out", set_the_clock_back)
    sim.end_job(job, exit_code=0, artifacts=RESULT)
    found = sim.job(job)
    assert found.status() is Status.COMPLETED
    assert found.transitions[-1].start_time <= sim.world.clock()


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 4))
def test_a_controller_that_dies_at_a_write_of_the_end_brings_small_variables_home(
    sim: Simulation, write: int, before: bool
) -> None:
    job = sim.submit(keep_alive=60)
    sim.pass_time(START)
    sim.kill_controller_at_write(write, before=before)
    sim.end_job(job, exit_code=0, artifacts=RESULT)
    sim.pass_time(START)
    sim.restart()
    sim.pass_time(START)
    found = sim.job(job)
    assert found.status() is Status.COMPLETED
    assert [row.status for row in found.transitions[-2:]] == [SecondaryStatus.UPLOADING, SecondaryStatus.COMPLETED]
    assert [Path(artifact.path).read_bytes() for artifact in found.artifacts] == [b"variables"]


# Engines


def test_a_transient_refusal_is_tried_again(sim: Simulation) -> None:
    sim.set_faults(fake_engine.RefusesTransiently(2))
    job = sim.submit()
    sim.pass_time(10)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sum(sim.world.launches.values()) == 1


def test_a_refusal_that_does_not_end_keeps_the_job_in_the_queue_and_the_next_one_behind_it(sim: Simulation) -> None:
    sim.set_faults(fake_engine.RefusesTransiently(20))
    job, waiting = sim.submit(hosts=2), sim.submit(hosts=2)
    sim.pass_time(300)
    assert positions(sim) == {job: 1, waiting: 2}
    assert sim.start_reason(job).sentence.endswith("There is no capacity now.")
    sim.set_faults()
    sim.pass_time(31)
    assert sim.job(job).state is SecondaryStatus.TRAINING


def test_a_clear_refusal_is_not_tried_again(sim: Simulation) -> None:
    sim.set_faults(fake_engine.Refuses())
    job = sim.submit()
    assert sim.job(job).status() is Status.FAILED
    assert sim.job(job).failure_reason == "ClientError: This role may not do that."
    assert sim.job(job).hosts == ()


def test_hosts_that_never_listen_are_given_up_and_released(sim: Simulation) -> None:
    sim.set_faults(fake_engine.NeverStarts())
    job = sim.submit()
    sim.pass_time(0.1)
    first = sim.world.live_hosts()
    assert len(first) == 1
    sim.pass_time(LIMITS.launch_limit)
    assert not first[0].alive, "it is ended although it never had a handle"
    sim.pass_time(2 * LIMITS.launch_limit + 10)
    assert sim.job(job).status() is Status.FAILED
    assert sim.world.live_hosts() == []
    assert len(sim.world.launches) == 3


def test_a_host_that_dies_during_the_start_takes_the_others_with_it_and_the_job_starts_again(sim: Simulation) -> None:
    sim.set_faults(fake_engine.CrashesDuringStart())
    job = sim.submit(hosts=2)
    sim.pass_time(START)
    assert sim.world.live_hosts() == []
    sim.set_faults()
    sim.pass_time(5)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert set(sim.world.start_counts.values()) == {1}


def test_a_start_that_failed_for_now_begins_again_although_the_controller_died_over_it(sim: Simulation) -> None:
    sim.set_faults(fake_engine.CrashesDuringStart())
    job = sim.submit()
    first = sim.job(job).cluster
    sim.kill_controller_at_write(2, before=True)
    sim.pass_time(START)
    assert sim.controller.is_dead
    assert first in sim.world.released_clusters, "nobody can ask for it again"
    sim.set_faults()
    sim.restart()
    sim.pass_time(5)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert sim.pool(first).state is ClusterState.TERMINATED
    assert sim.job(job).cluster != first


def test_an_outage_loses_nothing(sim: Simulation) -> None:
    job = sim.submit(keep_alive=600)
    sim.pass_time(START)
    sim.set_faults(fake_engine.Outage())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(100)
    assert sim.job(job).state is SecondaryStatus.TRAINING
    sim.set_faults()
    sim.pass_time(31)
    sim.end_job(job)
    assert sim.job(job).status() is Status.COMPLETED
    assert len(sim.pools(ClusterState.AVAILABLE)) == 1


def test_who_is_silent_for_too_long_is_lost_and_released(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.set_faults(fake_engine.DropsStreams())
    sim.break_streams(sim.hosts(job)[0])
    sim.pass_time(LIMITS.unreachable_limit + 40)
    assert sim.job(job).status() is Status.FAILED
    assert sim.world.live_hosts() == []


def test_an_engine_that_forgets_a_cluster_does_not_make_two_of_it(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    sim.set_faults(fake_engine.ReportsGone())
    sim.pass_time(10)
    assert sim.job(job).status() is Status.FAILED
    assert sim.world.live_hosts() == []
    assert sum(sim.world.start_counts.values()) == 1


def test_a_job_that_nobody_wants_any_more_is_stopped_and_not_failed_by_a_refusal(sim: Simulation) -> None:
    sim.set_faults(fake_engine.NeverStarts())
    job = sim.submit()
    sim.stop(job)
    sim.pass_time(LIMITS.launch_limit + 1)
    assert sim.job(job).state is SecondaryStatus.STOPPED
    assert sim.world.live_hosts() == []


# Requests that cannot be honoured


def test_a_job_that_no_frame_can_carry_fails_and_says_so(sim: Simulation) -> None:
    job = sim.submit(source="\x01" * 4_000_000, keep_alive=60)  # six letters each in JSON
    sim.pass_time(START + 3)
    found = sim.job(job)
    assert found.status() is Status.FAILED
    assert found.failure_reason.startswith("ClientError: The request run cannot be sent")


def test_hosts_that_are_busy_with_something_else_are_asked_again(sim: Simulation) -> None:
    first = sim.submit(keep_alive=60)
    sim.world.scripts[first] = FakeScript(honours_stop=False)
    sim.pass_time(START)
    host = sim.hosts(first)[0]
    run = host.runs.pop(first)
    stranger = replace_run(run, "f" * 12)
    sim.call(lambda: host.runs.update({"f" * 12: stranger}))
    sim.call(host.close_streams)
    sim.pass_time(3)
    assert sim.job(first).state is SecondaryStatus.TRAINING
    assert sum(sim.world.start_counts.values()) == 1


def replace_run(run: Any, job: str) -> Any:
    run.job = job
    return run


def test_a_job_that_completed_and_lost_a_variable_says_so_in_the_lists(sim: Simulation) -> None:
    job = sim.submit(receive=("x", "y"))
    sim.pass_time(START)
    sim.end_job(job, errors=["receive: 'x' could not be kept: No space left.", "receive: 'y' is not defined."])
    assert sim.job(job).status() is Status.COMPLETED
    assert message(sim) == "The job completed, but 'x' could not be kept: No space left."


def test_a_job_that_waits_for_a_disk_says_so_in_the_lists(sim: Simulation) -> None:
    job = sim.submit()
    sim.pass_time(START)
    (host,) = sim.hosts(job)
    usual = message(sim)
    news = {"event": "disk_wait", "job": job, "lease": host.runs[job].lease}
    for reason in ("The disk of /opt/ml/model is full.", "The disk of /tmp is full."):
        sim.call(lambda: host.send_event({**news, "reason": reason}))  # noqa: B023 - called at once
        assert message(sim) == f"It waits for a disk of its host. {reason}"
    sim.call(lambda: host.send_event({**news, "reason": ""}))
    assert message(sim) == usual == "Running the code."


def message(sim: Simulation) -> str:
    (row,) = sim.call(lambda: sim.controller.facade.jobs(100, "", None))
    return row.message


def test_two_jobs_whose_ids_begin_alike_have_different_names(sim: Simulation) -> None:
    first, second = sim.submit(job_id="abcdef000000"), sim.submit(job_id="abcdef111111")
    names = [sim.job(job).name for job in (first, second)]
    assert names == [sim.job(first).spec.base_name + "-abcdef", sim.job(second).spec.base_name + "-abcdef111111"]
    sim.pass_time(2)
    for job in (first, second):
        sim.end_job(job)
        sim.pass_time(2)
        assert sim.job(job).status() is Status.COMPLETED


def test_each_host_is_told_its_shard_of_a_channel_in_the_words_that_agents_read(sim: Simulation) -> None:
    whole, dealt = (
        Channel(name="all", source="/data"),
        Channel(name="part", source="/data", distribution="ShardedByS3Key"),
    )
    job = sim.submit(hosts=2, channels=(whole, dealt))
    sim.pass_time(START)
    told = [host.runs[job].spec["channels"] for host in sim.hosts(job)]
    assert [[channel["share"] for channel in channels] for channels in told] == [
        [{"turn": 0, "count": 1}, {"turn": 0, "count": 2}],
        [{"turn": 0, "count": 1}, {"turn": 1, "count": 2}],
    ]


def test_what_is_told_of_a_pool_names_the_job_that_takes_it_from_its_first_word_on(sim: Simulation) -> None:
    seen = 0
    for _ in range(2):
        job = sim.submit(keep_alive=600)
        sim.pass_time(1.0)
        news = sim.controller.facade.changes(seen, 1000)
        seen = news.seq
        named = {event.pool.job for event in news.events if event.pool is not None and event.pool.job}
        assert named == {sim.job(job).name}
        sim.end_job(job)
        sim.pass_time(1.0)

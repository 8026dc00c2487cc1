"""Progress of live jobs beside the loop: told about once a second, never in the way, and honest about the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from records import a_job, a_spec, an_id

from jupyter_smx.controller.db.store import Store
from jupyter_smx.controller.state.change_signal import ChangeSignal
from jupyter_smx.controller.state.live_state import LiveState
from jupyter_smx.controller.telemetry import progress_tracker
from jupyter_smx.controller.telemetry.log_metrics import LogMetrics, LogMetricsReader
from jupyter_smx.controller.telemetry.progress_tracker import EVENTS_PER_SECOND, MAX_FORECAST_JOBS, ProgressTracker
from jupyter_smx.controller.transfer.job_folder import JobFolder
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.limits import Limits
from jupyter_smx.testing.eventually import eventually
from jupyter_smx.testing.groups.loop_lag import LoopLag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.model.records.event import Event
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import JobTelemetry

EVIL = r"(a+)+b(\d)"


class World:
    """Books with live jobs, their logs, and a meter."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.folder = folder / "jobs"
        self.store = Store.open(folder / "smx.sqlite")
        self.books = LiveState(
            self.store, Limits(max_hosts=2, cpus=2, memory_gib=8.0), lambda: self.now, ChangeSignal()
        )
        self.fenced = 0
        self.meter = self.new_meter()

    def new_meter(self) -> ProgressTracker:
        def count() -> None:
            self.fenced += 1

        return ProgressTracker(self.folder, self.books, lambda _engine: True, count)

    def run(self, number: int = 1, **fields: Any) -> Job:
        made = {"cluster": f"c{number}", "state": SecondaryStatus.TRAINING, "created_at": self.now}
        job = a_job(number, **made | {"timings": {"first_line": self.now}} | fields)
        self.books.save(jobs=[job])
        return job

    def write(self, job: Job, data: bytes) -> None:
        path = JobFolder(self.folder, job.id).log("algo-1", job.attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            log.write(data)
        self.meter.on_growth(job.id)

    def complete(self, number: int, seconds: float, **fields: Any) -> None:
        times = {"first_line": self.now - seconds, "exited": self.now}
        job = a_job(number, state=SecondaryStatus.COMPLETED, timings=times, ended_at=self.now, **fields)
        self.books.save(jobs=[job])

    def outlook(self, job: Job) -> JobTelemetry | None:
        return self.books.outlooks.get(job.id)

    def events(self, since: int = 0) -> list[Event]:
        return self.store.events_since(since)[0]

    def says(self, job: Job, text: str) -> bool:
        found = self.outlook(job)
        return found is not None and found.progress is not None and found.progress.text == text


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.meter.close()
    made.store.close()


async def test_a_growing_log_moves_the_summary_and_is_told(world: World) -> None:
    job = world.run()
    since = world.store.last_seq()
    world.write(job, b"epoch 3/10 loss=0.5\n")
    await eventually(lambda: world.events(since))
    told = world.events(since)[-1].job
    assert told is not None
    assert told.progress is not None
    assert (told.progress.fraction, told.progress.text, told.metrics) == (0.3, "epoch 3/10", {"loss": 0.5})
    assert world.books.job(job.id) == job


async def test_many_steps_are_told_once_a_second(world: World) -> None:
    job = world.run()
    since = world.store.last_seq()
    ticks = asyncio.get_running_loop().time()
    for number in range(1, 41):
        world.write(job, b"step %d/40\n" % number)
        await eventually(lambda number=number: world.says(job, f"step {number}/40"))  # type: ignore[misc]
    passed = asyncio.get_running_loop().time() - ticks
    assert len(world.events(since)) <= 2 + passed
    await eventually(lambda: world.events(since)[-1].job.progress.fraction == 1.0)  # type: ignore[union-attr]


async def test_a_change_of_state_does_not_wait_and_carries_the_newest_progress(world: World) -> None:
    job = world.run()
    world.write(job, b"step 1/40\n")
    await eventually(lambda: world.says(job, "step 1/40"))
    world.write(job, b"step 2/40\n")
    await eventually(lambda: world.says(job, "step 2/40"))
    world.books.save(jobs=[replace(job, state=SecondaryStatus.UPLOADING)])
    told = world.events()[-1].job
    assert told is not None
    assert told.secondary_status is SecondaryStatus.UPLOADING
    assert told.progress is not None
    assert told.progress.text == "step 2/40"


async def test_a_thousand_jobs_share_the_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_tracker, "EVENTS_PER_SECOND", EVENTS_PER_SECOND // 25)
    jobs = [world.run(number) for number in range(1, 21)]
    since = world.store.last_seq()
    for job in jobs:
        world.write(job, b"step 1/2\n")
    await eventually(lambda: all(world.says(job, "step 1/2") for job in jobs))
    assert world.meter._pace() == 10.0
    for job in jobs:
        world.write(job, b"step 2/2\n")
    await eventually(lambda: all(world.says(job, "step 2/2") for job in jobs))
    assert len(world.events(since)) <= len(jobs)


async def test_a_regex_without_an_end_blocks_neither_the_loop_nor_other_jobs(world: World) -> None:
    evil = world.run(1, spec=a_spec(metrics={"evil": EVIL, "good": r"good=(\d+)"}))
    other = world.run(2)
    async with LoopLag() as lag:
        world.write(evil, (b"a" * 4000 + b"\n") * 50 + b"good=3\n")
        world.write(other, b"epoch 1/2\n")
        await eventually(lambda: world.says(other, "epoch 1/2"))
        told = await world.meter.read_final_metrics(evil)
    assert lag.max_lag < 0.1
    assert any("The regex of metric evil took" in note for note in told.notes)
    assert [value.name for value in told.latest] == ["good"]


async def test_a_flood_of_log_leaves_the_loop_free(world: World) -> None:
    job = world.run()
    async with LoopLag() as lag:
        world.write(job, b"epoch 1/2 loss=0.5 acc=0.25\n" * 200_000 + b"epoch 2/2 loss=0.25\n")
        await eventually(lambda: world.says(job, "epoch 2/2"), within=60.0)
    assert lag.max_lag < 0.1


async def test_the_verdict_has_the_last_values_and_no_record_of_the_reading_stays(world: World) -> None:
    job = world.run()
    world.write(job, b"epoch 1/2 loss=0.5\nepoch 2/2 loss=0.25")
    await eventually(lambda: world.says(job, "epoch 1/2"))
    told = await world.meter.read_final_metrics(job)
    assert told.progress is not None
    assert told.progress.fraction == 1.0
    assert [(value.name, value.value) for value in told.latest] == [("loss", 0.25)]
    world.books.save(jobs=[replace(job, state=SecondaryStatus.COMPLETED, metrics=told.latest)])
    row = world.store.summaries()[0]
    assert row.metrics == {"loss": 0.25}
    assert world.books.outlooks == {}
    found = await world.meter.metrics(world.store.find_job(job.id), 1, 0.0)
    assert found.series[0].values == (0.5, 0.25)


@pytest.mark.parametrize("log", [b"", b"epoch 1/2 loss=0.5\n"])
@pytest.mark.parametrize("ticks", [0, 1])
async def test_nothing_of_a_job_that_is_over_stays_in_memory(world: World, log: bytes, ticks: int) -> None:
    job = world.run()
    world.write(job, log)
    for _ in range(ticks):
        world.meter.tick()  # most warm jobs are over before the first tick
    await world.meter.read_final_metrics(job)
    world.books.save(jobs=[replace(job, state=SecondaryStatus.COMPLETED)])
    world.meter.tick()
    by_job = {name: value for name, value in vars(world.meter).items() if isinstance(value, dict)}
    assert len(by_job) >= 5
    assert {name: value for name, value in by_job.items() if job.id in value} == {}


async def test_what_was_not_saved_is_read_again_from_the_log(world: World) -> None:
    job = world.run()
    world.write(job, b"epoch 1/2 loss=0.5\nepoch 2/2 loss=0.25\n")
    await world.meter.read_final_metrics(job)
    done = replace(job, state=SecondaryStatus.COMPLETED)
    world.books.save(jobs=[done])
    await world.meter.metrics(done, 1, 0.0)
    JobFolder(world.folder, job.id).metrics().unlink()
    for _ in range(2):
        assert (await world.meter.metrics(done, 1, 0.0)).series[0].values == (0.5, 0.25)


async def test_a_deleted_job_does_not_come_back(world: World) -> None:
    job = world.run()
    world.write(job, b"epoch 1/2 loss=0.5\n")
    await world.meter.read_final_metrics(job)
    JobFolder(world.folder, job.id).delete()
    await world.meter.close()
    world.meter = world.new_meter()
    assert not JobFolder(world.folder, job.id).path.exists()


async def test_a_verdict_waits_no_longer_than_a_moment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = world.run(1, spec=a_spec(metrics={"slow": r"slow=(\d+)"}))
    world.write(job, b"epoch 1/2 loss=0.5\n")
    await eventually(lambda: world.says(job, "epoch 1/2"))
    held = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_gauge: LogMetricsReader) -> None:
        asyncio.run_coroutine_threadsafe(held.wait(), loop).result()

    monkeypatch.setattr(LogMetricsReader, "read_remaining", hang)
    monkeypatch.setattr(progress_tracker, "FINAL_METRICS_TIMEOUT", 0.05)
    told = await world.meter.read_final_metrics(job)
    held.set()
    assert told.progress is not None
    assert told.progress.text == "epoch 1/2"


async def test_a_short_log_is_read_at_once_and_leaves_a_file_only_with_what_it_measured(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProgressTracker, "_in_thread", None)
    silent, measured = world.run(1), world.run(2)
    for job, text in ((silent, b"hello\n"), (measured, b"epoch 1/2 loss=0.5\n")):
        path = JobFolder(world.folder, job.id).log("algo-1")
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
    assert await world.meter.read_final_metrics(silent) == LogMetrics()
    told = await world.meter.read_final_metrics(measured)
    assert [(value.name, value.value) for value in told.latest] == [("loss", 0.5)]
    files = [JobFolder(world.folder, job.id).metrics().exists() for job in (silent, measured)]
    assert files == [False, True]


async def test_a_bug_in_the_reading_costs_the_metrics_and_not_the_verdict(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = world.run()
    world.write(job, b"epoch 1/2\n")

    def fail(_gauge: LogMetricsReader) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(LogMetricsReader, "read_remaining", fail)
    assert (await world.meter.read_final_metrics(job)).latest == ()
    assert "unforeseen" in caplog.text


async def test_the_next_controller_goes_on_where_the_last_one_was(world: World) -> None:
    job = world.run()
    world.write(job, b"epoch 1/4 loss=1\nepoch 2/4 loss=2\n")
    await eventually(lambda: world.says(job, "epoch 2/4"))
    await world.meter.close()
    world.books.outlooks.clear()
    world.meter = world.new_meter()
    world.meter.tick()
    await eventually(lambda: world.says(job, "epoch 2/4"))
    world.write(job, b"epoch 3/4 loss=3\n")
    await eventually(lambda: world.says(job, "epoch 3/4"))
    assert (await world.meter.metrics(job, 1, 0.0)).series[0].values == (1.0, 2.0, 3.0)


async def test_the_expected_end_comes_from_earlier_runs_of_the_same_code(world: World) -> None:
    for number, seconds in enumerate((50.0, 60.0, 70.0), 1):
        world.complete(number, seconds)
    world.complete(4, 5.0, spec=a_spec(source="something else"))
    job = world.run(9)
    world.meter.tick()
    found = world.outlook(job)
    assert found is not None
    assert found.expectation is not None
    assert (found.expectation.seconds, found.expectation.runs, found.expectation.basis) == (60.0, 3, "history")
    world.now += 65
    world.meter.tick()
    assert world.books.summary(job).expectation.seconds == 70.0  # type: ignore[union-attr]
    world.now += 10
    world.meter.tick()
    assert world.books.summary(job).expectation is None


async def test_a_deleted_job_is_no_history(world: World) -> None:
    world.complete(1, 50.0)
    world.store.delete_job(an_id(1), 3.0)
    job = world.run(9)
    world.meter.tick()
    assert world.outlook(job) is None


async def test_bug_32_a_waiting_job_is_told_when_it_will_begin(world: World) -> None:
    world.complete(1, 60.0)
    running = [world.run(number) for number in (11, 12)]
    world.now += 20
    waiting = [a_job(number, created_at=world.now) for number in (21, 22, 23)]
    unknown = a_job(24, created_at=world.now + 1, spec=a_spec(source="never seen"))
    world.books.save(jobs=[*waiting, unknown])
    world.meter.tick()
    starts = [world.books.summary(job).expected_start_at for job in (*waiting, unknown)]
    assert starts == [world.now + 40, world.now + 40, world.now + 100, world.now + 100]
    world.books.save(jobs=[replace(job, spec=a_spec(source="never seen either")) for job in running])
    world.meter._past_runs.clear()
    world.meter.tick()
    assert world.books.summary(waiting[0]).expected_start_at is None


async def test_of_ten_thousand_waiting_jobs_only_the_first_are_looked_at(world: World) -> None:
    world.run(1)
    world.complete(2, 60.0)
    jobs = [a_job(number, created_at=world.now + number, spec=a_spec(engine="local")) for number in range(100, 400)]
    world.books.save(jobs=jobs)
    world.meter.tick()
    known = [job for job in jobs if world.books.summary(job).expected_start_at is not None]
    assert len(known) == MAX_FORECAST_JOBS
    assert len(world.meter._past_runs) == MAX_FORECAST_JOBS + 1


async def test_a_new_controller_reports_no_position_again(world: World) -> None:
    jobs = [a_job(number, created_at=world.now + number) for number in range(1, 101)]
    world.books.save(jobs=jobs)
    world.books = LiveState(world.store, Limits(), lambda: world.now, ChangeSignal())
    assert world.books.summary(jobs[-1]).queue_position == len(jobs)
    assert world.books.moved_jobs(100) == []
    world.books.save(jobs=[replace(jobs[0], cluster="c", state=SecondaryStatus.STARTING)])
    assert [job.id for job in world.books.moved_jobs(1)] == [jobs[1].id]


async def test_tasks_that_wait_are_told_their_positions_when_some_of_their_array_start(world: World) -> None:
    array = ArrayTask(id="a", name="tree", index=0, size=6)
    tasks = [a_job(number, spec=a_spec(array=replace(array, index=number))) for number in range(6)]
    world.books.save(jobs=tasks)
    shown = {job.id: job.queue_position for job in (event.job for event in world.events()) if job is not None}
    assert list(shown.values()) == [1, 2, 3, 4, 5, 6]
    for task in tasks[:2]:
        world.books.save(jobs=[replace(task, cluster="c", state=SecondaryStatus.STARTING)])
    since = world.store.last_seq()
    world.meter.tick()
    await eventually(lambda: world.events(since))
    shown |= {job.id: job.queue_position for job in (event.job for event in world.events()) if job is not None}
    assert list(shown.values()) == [None, None, 1, 2, 3, 4]
    told = world.store.last_seq()
    world.meter.tick()
    assert world.books.moved_jobs(100) == []
    assert world.store.last_seq() == told


async def test_an_owner_that_was_replaced_says_so_and_tells_nothing(world: World, tmp_path: Path) -> None:
    job = world.run()
    newer = Store.open(tmp_path / "smx.sqlite")
    world.write(job, b"epoch 1/2\n")
    await eventually(lambda: world.fenced)
    assert newer.events_since(0)[1] == world.store.last_seq()
    newer.close()

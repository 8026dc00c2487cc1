"""Images that are downloaded for jobs: their progress, the jobs that wait for them, and what is independent of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.model.errors import ResourceInUseError
from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.policy.lifecycle import image_pull
from jupyter_smx.policy.lifecycle.spot import check_interruption
from jupyter_smx.testing.fakes.fake_engine import Outage
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.simulation.simulation import Simulation

DIGEST = f"registry/train@sha256:{'5' * 64}"
TAKES = 5.0


@pytest.fixture
def ships(ships: Simulation) -> Simulation:
    found = engine(ships)
    found.remote_images, found.resolve_seconds, found.digests = {"train:1"}, TAKES, {"train:1": DIGEST}
    return ships


def engine(sim: Simulation) -> FakeImageEngine:
    assert isinstance(sim.engine, FakeImageEngine)
    return sim.engine


def steps(job: Job) -> list[str]:
    return [row.status.value for row in job.transitions]


def test_a_job_whose_image_is_downloaded_is_downloading_and_says_how_far_that_is(ships: Simulation) -> None:
    job = ships.submit(image="train:1")
    ships.pass_time(1.1)
    said = ships.controller.live_state.summary(ships.job(job))
    assert said.secondary_status is SecondaryStatus.DOWNLOADING
    assert said.message == "Downloading the image train:1: 3 of 5 layers."
    assert (said.status, said.pool, said.queue_position, said.started_at) == (Status.IN_PROGRESS, "", None, None)
    assert ships.start_reason(job).sentence == said.message
    ships.pass_time(TAKES)
    record = ships.job(job)
    assert steps(record) == ["Pending", "Downloading", "Pending", "Starting", "Training"]
    first, second = (record.transitions[at] for at in (1, 2))
    assert first.end_time == second.start_time
    assert second.status_message.startswith("The image is ready after 5 s")


def test_why_says_that_it_was_downloaded_and_how_long_that_took_and_the_record_where_it_can_be_had(
    ships: Simulation,
) -> None:
    job = ships.submit(image="train:1")
    ships.pass_time(TAKES + 1)
    ships.end_job(job)
    record = ships.job(job)
    assert ships.start_reason(job).notes[0].startswith("Its hosts use the image train:1 (11), which was downloaded in ")
    took = record.timings["pulled"] - record.timings["pulling"]
    assert took == pytest.approx(TAKES)
    assert record.image is not None
    assert record.image.digest == DIGEST
    assert record.provenance is not None
    assert record.provenance.image == f"train:1 (11), {DIGEST}"
    engine(ships).resolve_seconds = 0.0
    again = ships.run_to_end(image="train:1")
    assert "Its hosts use the image train:1 (11)." in ships.start_reason(again).notes


def test_a_download_is_no_time_of_any_host(ships: Simulation) -> None:
    job = ships.submit(image="train:1")
    ships.pass_time(TAKES - 1)
    waiting = ships.job(job)
    assert (waiting.started_at, waiting.counted_from, attempt_started_at(waiting)) == (None, None, None)
    assert not ships.controller.live_state.summary(waiting).cost
    ships.pass_time(3)
    began = attempt_started_at(ships.job(job))
    assert began is not None
    assert began >= ships.job(job).timings["pulled"]


def test_a_spot_job_has_no_hosts_to_take_away_in_a_download(ships: Simulation) -> None:
    job = ships.submit(image="train:1", spot=True)
    ships.pass_time(1.1)
    with pytest.raises(ResourceInUseError, match="is waiting for its image"):
        check_interruption(ships.job(job), None)


def test_a_job_that_is_stopped_in_a_download_is_stopped_at_once_and_never_began(ships: Simulation) -> None:
    job = ships.submit(image="train:1")
    ships.pass_time(1.1)
    ships.stop(job)
    record = ships.job(job)
    assert steps(record) == ["Pending", "Downloading", "Stopped"]
    assert (record.ran_seconds, record.started_at, attempt_started_at(record)) == (None, None, None)
    ships.pass_time(TAKES)
    assert engine(ships).cluster_images == {}
    assert engine(ships).remote_images == {"train:1"}, "the download went on for nobody"


def test_a_download_is_shared_and_goes_on_while_somebody_wants_it(ships: Simulation) -> None:
    first, second = ships.submit(image="train:1"), ships.submit(image="train:1")
    ships.pass_time(1.1)
    ships.stop(first)
    ships.pass_time(TAKES)
    assert ships.job(second).state is SecondaryStatus.TRAINING
    assert engine(ships).resolve_counts == {"train:1": 1}
    assert "which was downloaded in" in ships.start_reason(second).notes[0]


def test_tasks_of_an_array_wait_for_one_download_and_one_of_them_says_how_far_it_is(ships: Simulation) -> None:
    ships.submit_array(4, image="train:1")
    ships.pass_time(1.1)
    books = ships.controller.live_state
    assert sorted(job.state.value for job in books.jobs.values()) == ["Downloading", "Pending", "Pending", "Pending"]
    ships.pass_time(TAKES)
    assert engine(ships).resolve_counts == {"train:1": 1}
    assert len(books.jobs) == len({job.id for job in books.jobs.values() if "pulled" in job.timings}) == 4


def test_a_controller_that_dies_in_a_download_leaves_the_next_one_to_go_on(ships: Simulation) -> None:
    job = ships.submit(image="train:1")
    ships.pass_time(2.1)
    began = ships.job(job).timings["pulling"]
    ships.kill_controller()
    ships.restart()
    ships.pass_time(1.1)
    assert ships.job(job).state is SecondaryStatus.DOWNLOADING
    ships.pass_time(TAKES)
    record = ships.job(job)
    assert record.state is SecondaryStatus.TRAINING
    assert steps(record) == ["Pending", "Downloading", "Pending", "Starting", "Training"]
    assert record.timings["pulling"] == began
    assert engine(ships).resolve_counts == {"train:1": 2}


def test_a_registry_that_is_away_is_asked_again_after_longer_and_longer_pauses(ships: Simulation) -> None:
    engine(ships).registry_failures = 3
    job = ships.submit(image="train:1")
    ships.pass_time(2.2)
    said = ships.controller.live_state.summary(ships.job(job)).message
    assert said == "Inspecting the image: The registry of train:1 is away; next attempt in 2 s."
    assert engine(ships).resolve_counts == {"train:1": 2}
    ships.pass_time(sum(image_pull.BACKOFF[:3]) + TAKES)
    assert ships.job(job).state is SecondaryStatus.TRAINING


def test_a_registry_that_stays_away_ends_the_job_with_a_reason(ships: Simulation) -> None:
    engine(ships).registry_failures = 1_000
    job = ships.submit(image="train:1")
    ships.pass_time(sum(image_pull.BACKOFF) + 1)
    record = ships.job(job)
    assert record.failure_reason == "CapacityError: The registry of train:1 is away."
    assert engine(ships).resolve_counts == {"train:1": len(image_pull.BACKOFF) + 1}


def test_an_engine_that_goes_away_between_two_tries_is_waited_for(ships: Simulation) -> None:
    engine(ships).registry_failures = 1
    job = ships.submit(image="train:1")
    ships.set_faults(Outage())
    ships.pass_time(4)
    assert (
        "The engine cannot be reached; next attempt in" in ships.controller.live_state.summary(ships.job(job)).message
    )
    ships.set_faults()
    ships.pass_time(10 + TAKES)
    assert ships.job(job).state is SecondaryStatus.TRAINING


def test_a_plan_downloads_nothing_and_says_what_would_be(ships: Simulation) -> None:
    desk = ships.controller.facade
    wish = ships.spec(image="train:1")
    image = ships.call(lambda: desk.validator.peek_image(wish))
    plan = ships.call(lambda: desk.plan(wish, image))
    assert plan["why"]["start"] == "cold"
    assert "The image train:1 is not on this machine and is downloaded first." in plan["why"]["notes"]
    assert engine(ships).remote_images == {"train:1"}

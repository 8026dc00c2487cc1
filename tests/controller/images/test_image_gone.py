"""Images that went between the moment in which a job was handed in and that in which it has hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_smx.controller.scheduling.job_events import MAX_REFUSALS
from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.accounting.price import billable_seconds
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.testing.simulation.simulation import Simulation

ID, OTHER = "sha256:11", "sha256:33"
DIGEST = f"registry/train@sha256:{'5' * 64}"
TAKES = 5.0


@pytest.fixture
def ships(ships: Simulation) -> Simulation:
    found = engine(ships)
    found.digests = {"train:1": DIGEST, DIGEST: DIGEST}
    return ships


def engine(sim: Simulation) -> FakeImageEngine:
    assert isinstance(sim.engine, FakeImageEngine)
    return sim.engine


def after_another(sim: Simulation, image: str = "train:1") -> tuple[str, str]:
    """Give a job that runs, and one that comes after it, whose image is on record."""
    first = sim.submit(image="train:2")
    second = sim.submit(image=image, after=(first,))
    sim.pass_time(1.5)
    assert sim.job(second).image is not None
    return first, second


def prune(sim: Simulation, digest_means: str = ID) -> None:
    """Let what the job was to have go, and its name mean another; its registry has it."""
    found = engine(sim)
    found.pruned_ids, found.images["train:1"] = {ID}, OTHER
    found.images[DIGEST], found.remote_images, found.resolve_seconds = digest_means, {DIGEST}, TAKES


def steps(job: Job) -> list[str]:
    return [row.status.value for row in job.transitions]


def test_an_image_that_went_is_brought_again_by_its_digest_and_no_other_one(ships: Simulation) -> None:
    first, job = after_another(ships)
    prune(ships)
    ships.end_job(first)
    ships.pass_time(3.2)
    said = ships.controller.live_state.summary(ships.job(job))
    assert said.message == "Downloading the image train:1: 3 of 5 layers."
    ships.pass_time(TAKES + 2)
    record = ships.job(job)
    assert record.state is SecondaryStatus.TRAINING
    assert (record.attempt, record.placements) == (1, 1)
    assert record.image is not None
    assert (record.image.name, record.image.id, record.image.digest) == ("train:1", ID, DIGEST)
    assert engine(ships).cluster_images[record.cluster] == ID
    assert engine(ships).resolve_counts[DIGEST] == 1
    assert "which was downloaded in 5 s" in ships.start_reason(job).notes[0]
    assert steps(record) == ["Pending", "Starting", "Downloading", "Pending", "Starting", "Training"]


def test_all_that_wait_for_it_share_the_download_and_those_that_come_now_have_what_the_name_means_now(
    ships: Simulation,
) -> None:
    first, job = after_another(ships)
    other = ships.submit(image="train:1", after=(first,))
    ships.pass_time(1.5)
    prune(ships)
    ships.end_job(first)
    ships.pass_time(3.2)
    new = ships.submit(image="train:1")
    ships.pass_time(2 * TAKES + 5)
    ids = [image.id for each in (job, other, new) if (image := ships.job(each).image) is not None]
    assert ids == [ID, ID, OTHER]
    assert engine(ships).resolve_counts[DIGEST] <= 2


def test_a_new_controller_goes_on_with_it(ships: Simulation) -> None:
    first, job = after_another(ships)
    prune(ships)
    ships.end_job(first)
    ships.pass_time(3.2)
    ships.kill_controller()
    ships.restart()
    ships.pass_time(1.1)
    assert ships.job(job).state is SecondaryStatus.DOWNLOADING
    ships.pass_time(TAKES + 3)
    assert ships.job(job).state is SecondaryStatus.TRAINING
    assert engine(ships).cluster_images[ships.job(job).cluster] == ID


def test_an_image_that_no_registry_has_ends_the_job_with_its_name_and_what_to_do(ships: Simulation) -> None:
    engine(ships).digests = {}
    first, job = after_another(ships)
    prune(ships)
    ships.end_job(first)
    ships.pass_time(3)
    reason = ships.job(job).failure_reason
    assert reason.startswith("ClientError: image: train:1 (11) is no longer on this machine.")
    assert "that image has no known registry" in reason
    assert "Submit it again" in reason


def test_a_digest_that_is_another_image_here_is_none_for_the_job(ships: Simulation) -> None:
    first, job = after_another(ships)
    prune(ships, digest_means=OTHER)
    ships.end_job(first)
    ships.pass_time(TAKES + 6)
    reason = ships.job(job).failure_reason
    assert f"{DIGEST} is not train:1 (11)" in reason
    assert engine(ships).cluster_images.get(ships.job(job).cluster) is None


def test_an_image_that_goes_again_and_again_ends_the_job(ships: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    first, job = after_another(ships)
    prune(ships)

    class Always(set[str]):
        def discard(self, _one: str) -> None:
            return

    monkeypatch.setattr(engine(ships), "pruned_ids", Always({ID}))
    ships.end_job(first)
    ships.pass_time(60)
    assert "later downloads replaced it" in ships.job(job).failure_reason
    assert engine(ships).resolve_counts[DIGEST] == MAX_REFUSALS - 1


def test_nobody_pays_for_an_image_that_is_brought_again(ships: Simulation) -> None:
    """The hosts that were to be made of it are on record as starting, and never were there."""
    first, job = after_another(ships)
    prune(ships)
    ships.end_job(first)
    seen = set()
    for _ in range(8):
        ships.pass_time(TAKES / 4)
        now = ships.job(job)
        seen.add(now.state)
        if not now.cluster:
            assert (attempt_started_at(now), billable_seconds(now, now.modified_at + 500)) == (None, 0.0), (
                now.transitions
            )
    assert {SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING} <= seen

"""Jobs whose hosts are made of an image: which one is settled first, it decides over reuse, and it is on the record."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_smx.model.errors import RefusedError, ValidationError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.policy.lifecycle import image_pull
from jupyter_smx.testing.fakes.fake_engine import Outage
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.simulation.simulation import PYTHON, Simulation

START = 0.6


def engine(sim: Simulation) -> FakeImageEngine:
    assert isinstance(sim.engine, FakeImageEngine)
    return sim.engine


def message(sim: Simulation, job: str) -> str:
    return sim.controller.live_state.summary(sim.job(job)).message


def image(sim: Simulation, job: str) -> tuple[str, str]:
    said = sim.controller.live_state.summary(sim.job(job)).image
    assert said is not None
    return said.name, said.id


def test_hosts_are_made_of_what_the_name_means_and_the_job_says_which_image_that_was(ships: Simulation) -> None:
    job = ships.run_to_end(image="train:1")
    record = ships.job(job)
    assert record.status() is Status.COMPLETED
    assert record.image is not None
    assert (record.image.name, record.image.id) == ("train:1", "sha256:11")
    assert engine(ships).cluster_images == {record.cluster: "sha256:11"}
    assert "Its hosts use the image train:1 (11)." in ships.start_reason(job).notes
    assert record.provenance is not None
    assert record.provenance.image == "train:1 (11)"
    assert "pulling" not in record.timings
    assert SecondaryStatus.DOWNLOADING not in {row.status for row in record.transitions}
    assert (record.spec.python, record.spec.python_version) == ("", "")


def test_the_next_job_of_the_image_starts_warm_under_whatever_name(ships: Simulation) -> None:
    first = ships.run_to_end(image="train:2", keep_alive=600)
    second = ships.submit(image="same:2", keep_alive=600)
    assert ships.start_reason(second).start == "warm"
    assert ships.job(second).cluster == ships.job(first).cluster
    assert ships.job(second).state is SecondaryStatus.TRAINING


def test_what_a_job_requires_is_its_own_matter_there_and_nothing_is_built_here(ships: Simulation) -> None:
    ships.run_to_end(image="train:1", requirements=("numpy",), keep_alive=600)
    second = ships.submit(image="train:1", requirements=("pandas",), keep_alive=600)
    assert ships.start_reason(second).start == "warm"
    assert ships.job(second).state is SecondaryStatus.TRAINING
    assert not ships.world.builder.start_counts


def test_another_image_starts_cold_and_why_names_both(ships: Simulation) -> None:
    first = ships.run_to_end(image="train:1", keep_alive=600)
    second = ships.submit(image="train:2")
    pool = ships.pool(ships.job(first).cluster).name()
    assert ships.start_reason(second).sentence == f"Cold: pool {pool} has image train:1, this job needs train:2."


def test_a_name_that_means_another_image_since_then_starts_cold_and_why_names_both(ships: Simulation) -> None:
    ships.run_to_end(image="train:1", keep_alive=600)
    engine(ships).images["train:1"] = "sha256:12"
    second = ships.submit(image="train:1")
    assert ships.start_reason(second).sentence.endswith("has image train:1 (11), this job needs train:1 (12).")
    ships.pass_time(START)
    assert ships.job(second).image == Image(name="", id="sha256:12")


def test_a_job_whose_image_is_known_goes_to_its_warm_host_at_once_and_without_a_look(
    ships: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ships.run_to_end(image="train:1", keep_alive=600)
    engine(ships).has_cache = True
    written: list[SecondaryStatus] = []
    books = ships.controller.live_state
    save = books.save

    def look_on(**told: Any) -> None:
        written.extend(job.state for job in told.get("jobs", ()) if job.id != first)
        save(**told)

    monkeypatch.setattr(books, "save", look_on)
    second = ships.submit(image="train:1", keep_alive=600)
    assert (written[0], ships.job(second).cluster) == (SecondaryStatus.STARTING, ships.job(first).cluster)
    assert engine(ships).resolve_counts == {"train:1": 1}
    assert image(ships, second) == ("train:1", "sha256:11")
    assert "Its hosts use the image train:1 (11)." in ships.start_reason(second).notes


def test_what_is_known_of_an_image_is_what_its_name_means_now(ships: Simulation) -> None:
    first = ships.run_to_end(image="train:1", keep_alive=600)
    engine(ships).has_cache = True
    engine(ships).images["train:1"] = "sha256:33"
    second = ships.submit(image="train:1", keep_alive=600)
    assert ships.job(second).cluster != ships.job(first).cluster
    assert image(ships, second) == ("train:1", "sha256:33")
    del engine(ships).images["train:1"]
    third = ships.submit(image="train:1")
    assert ships.job(third).status() is Status.FAILED


@pytest.mark.parametrize("error", [KeyError("Id"), RefusedError("no")])
def test_a_question_that_breaks_off_costs_no_job(ships: Simulation, error: Exception) -> None:
    first = ships.run_to_end(image="train:1", keep_alive=600)
    engine(ships).has_cache, engine(ships).cached_image_error = True, error
    second = ships.submit(image="train:1", keep_alive=600)
    assert (ships.job(second).cluster, ships.start_reason(second).start) == (ships.job(first).cluster, "warm")
    assert engine(ships).resolve_counts == {"train:1": 2}
    assert len(ships.bugs) == isinstance(error, KeyError), "what nobody foresaw is in the log"
    ships.bugs.clear()


def test_every_attempt_runs_the_image_of_the_first(ships: Simulation) -> None:
    job = ships.submit(image="train:1", retries=1)
    ships.pass_time(START)
    engine(ships).images["train:1"] = "sha256:12"
    ships.kill_host(ships.hosts(job)[0])
    ships.pass_time(20)
    assert ships.job(job).attempt == 2
    assert set(engine(ships).cluster_images.values()) == {"sha256:11"}


def test_a_job_that_comes_after_others_runs_what_the_name_meant_when_it_was_handed_in(ships: Simulation) -> None:
    first = ships.submit(image="train:2")
    job = ships.submit(image="train:1", after=(first,))
    ships.pass_time(START)
    record = ships.job(job)
    assert record.image == Image(name="", id="sha256:11")
    said = record.transitions[-1].status_message
    assert said == "The image is ready after 0 ms; waiting for the jobs that it depends on."
    assert ships.start_reason(job).sentence == f"Queued. Waiting for {ships.job(first).name}."
    engine(ships).images["train:1"] = "sha256:12"
    ships.end_job(first)
    ships.pass_time(START)
    assert ships.job(job).state is SecondaryStatus.TRAINING
    assert engine(ships).cluster_images[ships.job(job).cluster] == "sha256:11"


def test_a_job_that_comes_after_others_hears_at_once_that_there_is_no_such_image(ships: Simulation) -> None:
    first = ships.submit(image="train:2")
    job = ships.submit(image="gone:1", after=(first,))
    ships.pass_time(START)
    assert ships.job(job).failure_reason == "ClientError: --image: there is no image 'gone:1'. Build it."
    assert ships.job(first).state is SecondaryStatus.TRAINING


def test_an_image_is_looked_for_no_more_when_the_jobs_before_did_not_complete(ships: Simulation) -> None:
    first = ships.submit(image="train:2")
    ships.pass_time(START)
    engine(ships).resolve_seconds = 1e6
    job = ships.submit(image="train:1", after=(first,))
    assert message(ships, job).startswith("Inspecting the image")
    ships.end_job(first, exit_code=1)
    ships.pass_time(START)
    assert ships.job(job).status() is Status.FAILED
    now = ships.loop.now
    ships.run(ships.controller.reconciler.preparation.settle())
    assert ships.loop.now == now


def test_tasks_that_come_after_others_share_one_look_too(ships: Simulation) -> None:
    first = ships.submit(image="train:2")
    ships.pass_time(START)
    engine(ships).resolve_seconds, before = 1.0, ships.controller.store.writes
    ships.submit_array(20, image="train:1", after=(first,))
    assert ships.controller.store.writes - before == 2, (
        "one for the array, one for all that begin to wait for the image"
    )
    ships.pass_time(2)
    assert engine(ships).resolve_counts["train:1"] == 1
    ships.restart()
    ships.pass_time(START)
    ships.end_job(first)
    ships.pass_time(START)
    assert engine(ships).resolve_counts["train:1"] == 1
    assert len(ships.world.job_clusters) > 1


def test_while_an_image_is_brought_the_job_says_how_far_it_is_and_others_pass(ships: Simulation) -> None:
    engine(ships).resolve_seconds = 5.0
    job = ships.submit(image="train:1")
    ships.pass_time(1.1)
    assert message(ships, job) == "Inspecting the image: 3 of 5 layers."
    assert ships.start_reason(job).sentence == "Inspecting the image (train:1): 3 of 5 layers."
    engine(ships).resolve_seconds = 0.0
    other = ships.submit(image="train:2")
    ships.pass_time(START)
    assert ships.job(other).state is SecondaryStatus.TRAINING
    ships.pass_time(4)
    assert ships.job(job).state is SecondaryStatus.TRAINING


def test_lists_name_the_image_of_a_job_and_of_its_pool_and_the_id_as_soon_as_it_is_known(ships: Simulation) -> None:
    engine(ships).resolve_seconds = 5.0
    job = ships.submit(image="train:1", keep_alive=600)
    ships.pass_time(1.1)
    assert image(ships, job) == ("train:1", "")
    ships.pass_time(6)
    assert image(ships, job) == ("train:1", "sha256:11")
    (pool,) = ships.controller.facade.pools()
    assert pool.image is not None
    assert (pool.image.name, pool.image.id) == ("train:1", "sha256:11")


def test_all_tasks_of_an_array_share_one_look(ships: Simulation) -> None:
    ships.submit_array(20, image="train:1")
    ships.pass_time(START)
    assert engine(ships).resolve_counts == {"train:1": 1}


def test_a_job_that_is_stopped_while_its_image_is_brought_is_stopped_at_once(ships: Simulation) -> None:
    engine(ships).resolve_seconds = 1e6
    job = ships.submit(image="train:1")
    ships.stop(job)
    assert ships.job(job).status() is Status.STOPPED
    assert engine(ships).cluster_images == {}


def test_a_controller_that_dies_meanwhile_leaves_the_next_one_to_look_again(ships: Simulation) -> None:
    engine(ships).resolve_seconds = 3.0
    job = ships.submit(image="train:1")
    ships.kill_controller()
    ships.restart()
    ships.pass_time(6)
    assert ships.job(job).state is SecondaryStatus.TRAINING
    assert engine(ships).resolve_counts == {"train:1": 2}


def test_an_image_that_is_not_there_ends_the_job_with_the_cure_and_nothing_is_launched(ships: Simulation) -> None:
    job = ships.submit(image="gone:1")
    record = ships.job(job)
    assert record.status() is Status.FAILED
    assert record.failure_reason == "ClientError: --image: there is no image 'gone:1'. Build it."
    assert engine(ships).cluster_images == {}


def test_an_engine_that_does_not_answer_is_waited_for_with_its_reason(ships: Simulation) -> None:
    ships.set_faults(Outage())
    job = ships.submit(image="train:1")
    ships.pass_time(sum(image_pull.BACKOFF) + 100)
    said = ships.controller.live_state.summary(ships.job(job)).message
    assert said == "Inspecting the image: The engine cannot be reached; next attempt in 30 s."
    assert ships.job(job).ended_at is None
    ships.set_faults()
    ships.pass_time(image_pull.BACKOFF[-1] + 1)
    assert ships.job(job).state is SecondaryStatus.TRAINING


def test_an_engine_that_is_not_installed_is_refused_before_anything_is_recorded(
    ships: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RefusedError("--engine: Ships are not installed.", field="engine")

    monkeypatch.setattr(engine(ships), "check_installed", refuse, raising=False)
    with pytest.raises(RefusedError, match="Ships are not installed"):
        ships.submit(image="train:1")
    with pytest.raises(RefusedError, match="Ships are not installed"):
        ships.controller.facade.plan(ships.spec(image="train:1"))
    assert not ships.controller.live_state.jobs


def test_a_job_that_names_none_gets_the_usual_image_or_is_refused(ships: Simulation) -> None:
    with pytest.raises(ValidationError, match="--image: no image was given") as refused:
        ships.submit()
    assert refused.value.field == "image"
    engine(ships).default = "train:2"
    job = ships.run_to_end()
    assert ships.job(job).spec.image == "train:2"


def test_an_interpreter_that_somebody_named_is_refused_and_the_submitters_own_plays_no_role(ships: Simulation) -> None:
    with pytest.raises(ValidationError, match=f"--python: {PYTHON} is an interpreter of this machine"):
        ships.submit(image="train:1", python_named=True)
    first = ships.run_to_end(image="train:1", keep_alive=600)
    second = ships.submit(image="train:1", python="/another/python", python_version="3.9")
    assert ships.job(second).cluster == ships.job(first).cluster


def test_a_plan_says_of_what_hosts_would_be_made_and_whether_that_is_warm(ships: Simulation) -> None:
    ships.run_to_end(image="train:1", keep_alive=600)
    desk = ships.controller.facade
    for name, start in (("train:1", "warm"), ("train:2", "cold")):
        wish = ships.spec(image=name)
        image = ships.call(lambda wish=wish: desk.validator.peek_image(wish))
        assert ships.call(lambda wish=wish, image=image: desk.plan(wish, image))["why"]["start"] == start
    with pytest.raises(Exception, match="there is no image"):
        ships.call(lambda: desk.validator.peek_image(ships.spec(image="gone:1")))


def test_hosts_that_are_made_of_no_image_take_none(sim: Simulation) -> None:
    with pytest.raises(ValidationError, match="the engine fake does not use images"):
        sim.submit(image="train:1")

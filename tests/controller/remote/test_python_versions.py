"""A Python of another version is known from the first greeting; the next job with variables is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.model.status import SecondaryStatus, Status
from jupyter_smx.testing.fakes.fake_host import FakeHost
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.fakes.fake_remote_engine import FakeRemoteEngine
from jupyter_smx.testing.simulation.simulation import LIMITS, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = Payload(path="/payloads/x.pkl", sha256="0" * 64, sizes={"x": 1}, protocol="3.11/3.1.2")
SENT = replace(VALUES, code=("the function scale in x",))
BOTH = "packed by Python 3.11, and hosts of the engine fake run 3.9"


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    monkeypatch.setattr(FakeHost, "python", "3.9.18")
    with Simulation(limits=LIMITS, engine=FakeRemoteEngine) as simulation:
        yield simulation
        assert not simulation.bugs, "\n".join(simulation.bugs)


def run(sim: Simulation, **fields: Any) -> str:
    job = sim.run_to_end(**fields)
    sim.pass_time(1.0)
    return job


def test_the_first_job_finds_out_and_the_second_is_refused_with_both_versions(remote: Simulation) -> None:
    run(remote, send=SENT)
    with pytest.raises(ValidationError, match=BOTH):
        remote.submit(send=SENT)
    with pytest.raises(ValidationError, match=BOTH):
        remote.submit(shared=SENT)
    with pytest.raises(ValidationError, match="the function scale in x was"):
        remote.submit(shared=VALUES, send=SENT)
    assert not remote.controller.live_state.jobs, "nothing is on record"
    run(remote, send=VALUES, shared=VALUES)


def test_another_interpreter_of_the_engine_is_another_matter(remote: Simulation) -> None:
    run(remote)
    job = remote.submit(send=SENT, python="torch", python_named=True)
    assert remote.job(job).state is not SecondaryStatus.FAILED


def test_a_pool_that_lives_tells_a_new_controller(remote: Simulation) -> None:
    run(remote, keep_alive=600)
    remote.restart()
    with pytest.raises(ValidationError, match=BOTH):
        remote.submit(send=SENT)


def test_an_interpreter_that_was_updated_is_believed_again_after_its_next_host(
    remote: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(remote)
    monkeypatch.setattr(FakeHost, "python", "3.11.2")
    run(remote)
    run(remote, send=SENT)


def test_the_tasks_of_an_array_are_refused_together(remote: Simulation) -> None:
    run(remote)
    facade, wish = remote.controller.facade, remote.array_request(2, shared=SENT)

    async def submit() -> None:
        facade.arrays.submit(remote.new_id(), wish, await facade.validator.resolve_interpreter(wish.spec))

    with pytest.raises(ValidationError, match=BOTH):
        remote.call(submit)
    assert not remote.controller.live_state.jobs


def test_the_python_of_an_image_is_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHost, "python", "3.9.18")
    with Simulation(limits=LIMITS, engine=FakeImageEngine) as sim:
        assert isinstance(sim.engine, FakeImageEngine)
        sim.engine.has_cache = True
        run(sim, image="train:1", python="", send=SENT)
        with pytest.raises(ValidationError, match=r"and image train:1 has 3.9.*Choose an --image of 3.11"):
            sim.submit(image="train:1", python="", send=SENT)


def test_code_for_an_image_with_another_python_is_refused_before_there_are_hosts() -> None:
    with Simulation(limits=LIMITS, engine=FakeImageEngine) as sim:
        assert isinstance(sim.engine, FakeImageEngine)
        sim.engine.python_versions = {"sha256:11": "3.9", "sha256:22": "3.11"}
        job = sim.submit(image="train:1", python="", send=SENT)
        sim.pass_time(1.0)
        record = sim.job(job)
        assert record.failure_reason.startswith(
            "ClientError: --send: the function scale in x was packed by Python 3.11, and image train:1 has 3.9."
        )
        assert (record.cluster, sim.engine.cluster_images) == ("", {})
        sim.engine.has_cache = True
        with pytest.raises(ValidationError, match=r"and image train:1 has 3\.9"):
            sim.submit(image="train:1", python="", send=SENT)
        for image, sent in (("train:1", VALUES), ("train:2", SENT)):
            run(sim, image=image, python="", send=sent)


def test_tasks_with_code_are_refused_and_the_others_that_wait_for_the_image_run() -> None:
    with Simulation(limits=LIMITS, engine=FakeImageEngine) as sim:
        assert isinstance(sim.engine, FakeImageEngine)
        sim.engine.python_versions, sim.engine.resolve_seconds = {"sha256:11": "3.9"}, 2.0
        able = sim.submit(image="train:1", python="", send=VALUES)
        unable = [sim.submit(image="train:1", python="", **{name: SENT}) for name in ("send", "shared")]
        sim.pass_time(4.0)
        assert sim.job(able).state is SecondaryStatus.TRAINING
        assert {sim.job(job).status() for job in unable} == {Status.FAILED}
        assert sim.engine.resolve_counts["train:1"] == 1
        sim.end_job(able)


def test_a_refused_job_begins_no_second_inspection_for_the_jobs_that_wait_with_it() -> None:
    with Simulation(limits=LIMITS, engine=FakeImageEngine) as sim:
        assert isinstance(sim.engine, FakeImageEngine)
        sim.engine.python_versions, sim.engine.resolve_seconds = {"sha256:11": "3.9"}, 2.0
        earlier = sim.submit(image="train:2", python="")
        unable = sim.submit(image="train:1", python="", send=SENT)
        able = sim.submit(image="train:1", python="", send=VALUES, after=(earlier,))
        blocked = sim.submit(image="train:1", python="", after=(unable,))
        sim.pass_time(4.0)
        sim.end_job(earlier)
        sim.pass_time(4.0)
        assert sim.job(able).state is SecondaryStatus.TRAINING
        assert [sim.job(job).status() for job in (unable, blocked)] == [Status.FAILED, Status.FAILED]
        assert [len(sim.job(job).transitions) for job in (unable, blocked)] == [2, 2]
        assert sim.engine.resolve_counts["train:1"] == 1
        sim.end_job(able)


def test_a_plan_refuses_code_for_an_image_with_another_python() -> None:
    with Simulation(limits=LIMITS, engine=FakeImageEngine) as sim:
        assert isinstance(sim.engine, FakeImageEngine)
        sim.engine.python_versions = {"sha256:11": "3.9"}
        facade, spec = sim.controller.facade, sim.spec(image="train:1", python="", send=SENT)
        image = sim.call(lambda: facade.validator.peek_image(spec))
        with pytest.raises(ValidationError, match=r"and image train:1 has 3\.9"):
            facade.plan(spec, image)


def test_an_interpreter_of_this_machine_was_looked_at_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHost, "python", "3.9.18")
    with Simulation(limits=replace(LIMITS)) as sim:
        run(sim)
        run(sim, send=SENT)
        assert not sim.bugs

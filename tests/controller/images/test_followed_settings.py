"""Settings of an image that a job follows: they reach the engine and decide over reuse; the configuration has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from jupyter_smx.controller.scheduling.run_request import run_spec
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.status import Status
from jupyter_smx.policy.hosts.names import named_hosts
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import RunSpec
    from jupyter_smx.testing.simulation.simulation import Simulation


@pytest.fixture
def engine(ships: Simulation, monkeypatch: pytest.MonkeyPatch) -> FakeImageEngine:
    assert isinstance(ships.engine, FakeImageEngine)
    able = replace(FakeImageEngine.capabilities, image_settings=True)
    monkeypatch.setattr(FakeImageEngine, "capabilities", able)
    return ships.engine


def sent(ships: Simulation, job: str) -> RunSpec:
    record = ships.job(job)
    return run_spec(record, named_hosts(record.spec.instance_groups)[0], 1.0, 0)


def test_the_engine_resolves_the_image_with_the_settings_of_the_job(ships: Simulation, engine: FakeImageEngine) -> None:
    job = ships.run_to_end(image="train:1", image_user="image", image_workdir="image")
    assert ships.job(job).status() is Status.COMPLETED
    assert engine.resolved_settings == [("user",)]
    assert sent(ships, job)["image_workdir"]
    ships.run_to_end(image="train:1")
    assert engine.resolved_settings[1] == ()


def test_a_pool_of_other_settings_is_not_reused_and_why_names_them(
    ships: Simulation,
    engine: FakeImageEngine,  # noqa: ARG001 - it must be able to
) -> None:
    first = ships.run_to_end(image="train:1", keep_alive=600)
    second = ships.submit(image="train:1", image_user="image", image_entrypoint="image", keep_alive=600)
    pool = ships.pool(ships.job(first).cluster).name()
    assert ships.start_reason(second).sentence == (
        f"Cold: pool {pool} has image settings none, this job needs entrypoint and user."
    )
    third = ships.submit(image="train:1", image_workdir="image", keep_alive=600)
    assert ships.start_reason(third).start == "warm", "where code starts is no matter of the host"


def test_jobs_of_one_image_with_different_settings_do_not_share_the_look(
    ships: Simulation, engine: FakeImageEngine
) -> None:
    engine.resolve_seconds = 5.0
    for user in ("", "image", "image"):
        ships.submit(image="train:1", image_user=user)
    ships.pass_time(1)
    assert sorted(engine.resolved_settings) == [(), ("user",)]


def test_the_configuration_of_an_engine_decides_where_the_job_says_nothing(
    ships: Simulation, engine: FakeImageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "image_defaults", lambda image: ["user"] if image == "train:1" else [])
    jobs = [ships.run_to_end(image="train:1"), ships.run_to_end(image="train:1", image_user="default")]
    assert [ships.job(job).spec.image_user for job in jobs] == ["image", "default"]
    assert engine.resolved_settings == [("user",), ()]


def test_an_engine_that_cannot_follow_settings_refuses_them(ships: Simulation) -> None:
    with pytest.raises(ValidationError, match="--user: the engine"):
        ships.submit(image="train:1", image_user="image")


def test_the_program_of_the_image_is_the_command_of_a_job_without_a_script(
    ships: Simulation, engine: FakeImageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(name: str, _say: object, *, settings: tuple[str, ...] = ()) -> Image:
        del settings
        return Image(name=name, id="sha256:11", entrypoint=("/entry.sh",), has_train=False)

    monkeypatch.setattr(engine, "resolve_image", resolve)
    job = ships.run_to_end(image="train:1", image_program=True, command=("train",), source="train\n")
    assert sent(ships, job)["command"] == ["/entry.sh", "train"]
    assert sent(ships, job)["image_workdir"]


def test_an_image_without_a_program_fails_the_job_with_the_reason(
    ships: Simulation, engine: FakeImageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(name: str, _say: object, *, settings: tuple[str, ...] = ()) -> Image:
        del settings
        return Image(name=name, id="sha256:11", has_train=False)

    monkeypatch.setattr(engine, "resolve_image", resolve)
    job = ships.run_to_end(image="train:1", image_program=True, command=("train",), source="train\n")
    assert ships.job(job).status() is Status.FAILED
    assert "train:1 has no program train on its PATH" in ships.job(job).failure_reason

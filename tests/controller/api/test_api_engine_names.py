"""Names for completion: ``GET engines`` lists engines, and with ``engine`` what options name on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.controller.scheduling.engine_listing import EngineListing
from jupyter_smx.model.errors import RefusedError
from jupyter_smx.model.spec.instance import InstanceType, catalogue

if TYPE_CHECKING:
    import pytest
    from serving import World

    from jupyter_smx.engines.base import Engine

BOX = InstanceType(name="gpu-box", vcpus=8, memory_gib=32.0, gpus=1)


async def test_engine_names_without_an_engine_lists_engines_alone(world: World) -> None:
    world.engine.targets = ("gpu-box",)
    answer = await world.ask("GET", "/v1/engines")
    nothing = {"targets": [], "interpreters": [], "instance_types": [], "options": {}}
    assert answer.json() == {"engines": ["fake"], **nothing}


async def test_engine_names_of_one_engine_lists_its_machines_environments_and_types(world: World) -> None:
    world.engine.targets, world.engine.interpreters, world.engine.types = ("gpu-box", "two"), ("torch",), (BOX,)
    for engine in ("fake", "fake:gpu-box"):
        names = (await world.ask("GET", f"/v1/engines?engine={engine}")).json()
        assert names["targets"] == ["gpu-box", "two"]
        assert names["interpreters"] == ["torch"]
        assert names["instance_types"] == ["gpu-box", *catalogue()]


async def test_engine_names_of_one_engine_lists_its_options_with_known_values(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def values() -> dict[str, list[str]]:
        return {"partition": ["gpu", "main"], "not-an-option": ["x"]}

    monkeypatch.setattr(world.engine, "option_values", values, raising=False)
    world.engine.capabilities = replace(world.engine.capabilities, options=("partition", "time"))
    names = (await world.ask("GET", "/v1/engines?engine=fake")).json()
    assert names["options"] == {"partition": ["gpu", "main"], "time": []}


async def test_an_engine_says_how_its_jobs_reach_the_front_for_clients_of_aws(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await world.ask("GET", "/v1/engines/fake")).json()["aws_front"] == "none"
    world.engine.capabilities = replace(world.engine.capabilities, aws_front="relay")
    assert (await world.ask("GET", "/v1/engines/fake")).json()["aws_front"] == "relay"
    world.engine.capabilities = replace(world.engine.capabilities, aws_front="stream")
    assert (await world.ask("GET", "/v1/engines/fake")).json()["aws_front"] == "relay", "an older front reads it, too"
    monkeypatch.setattr(world.engine, "is_network_isolated", lambda: True)
    assert (await world.ask("GET", "/v1/engines/fake")).json()["aws_front"] == "isolated"


async def test_engine_names_of_an_engine_that_is_not_installed_is_404(world: World) -> None:
    answer = await world.ask("GET", "/v1/engines?engine=nosuch")
    assert answer.status == 404
    assert "Installed engines: fake." in answer.json()["rule"]


async def test_engine_names_of_an_engine_that_is_refused_has_its_machines(world: World) -> None:
    def refuse(name: str) -> Engine:
        raise RefusedError(f"--engine: {name!r} has no machines.", field="engine", value=name)

    listing = EngineListing(world.books, refuse, {"fake": lambda: ["gpu-box"]})
    names = await listing.list_names("fake")
    assert (names.targets, names.interpreters, names.instance_types) == (("gpu-box",), (), tuple(catalogue()))


async def test_engine_names_leaves_out_what_the_administrator_does_not_allow(world: World) -> None:
    world.engine.targets, world.engine.types = ("gpu-box", "two"), (BOX,)
    world.books.limits = replace(
        world.books.limits, allowed_engines=("fake:two",), allowed_instance_types=("ml.t3.medium",)
    )
    names = (await world.ask("GET", "/v1/engines?engine=fake")).json()
    assert (names["engines"], names["targets"]) == (["fake:two"], ["two"])
    assert names["instance_types"] == ["ml.t3.medium"]

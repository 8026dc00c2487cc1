"""The contract must fail an engine that lies: small lies are told to it on purpose, and it has to notice each."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, cast

import pytest
import pytest_asyncio

from jupyter_smx.engines.base import Observation
from jupyter_smx.engines.local.engine import LocalEngine
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.spec.instance import InstanceType
from jupyter_smx.testing.contract import EngineContract, never, notimpl, notyet
from jupyter_smx.testing.groups import networking
from jupyter_smx.testing.groups.concurrency import without_fields
from jupyter_smx.testing.groups.loop_lag import LoopLag
from jupyter_smx.testing.groups.networking import NetworkingGroup
from jupyter_smx.testing.local_harness import LocalHarness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_smx.engines.base import ClusterRequest, HostSpec
    from jupyter_smx.model.records.cluster import Handle

pytestmark = pytest.mark.heavy("remote")


class ForgetsWhatDied(LocalEngine):
    async def find(self, cluster: str) -> Handle | None:
        found = await super().find(cluster)
        alive = found is not None and await self.observe_all([found]) == [Observation.RUNNING]
        return found if alive else None


class CallsAnOutageGone(LocalEngine):
    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        answers = await super().observe_all(handles)
        return [Observation.GONE if answer is Observation.UNKNOWN else answer for answer in answers]


class SortsItsAnswers(LocalEngine):
    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        return sorted(await super().observe_all(handles))


class ReleasesInWordsOnly(LocalEngine):
    async def release(self, handle: Handle) -> None:
        (self._folders.clusters / handle.cluster / "released").touch()


class NoticesDeathsLate(LocalEngine):
    """Says RUNNING once more of a cluster whose agent has died, as the list of a scheduler does."""

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        answers = await super().observe_all(handles)
        late = self.__dict__.setdefault("late", set())
        told = [
            Observation.RUNNING if answer is Observation.GONE and handle.cluster not in late else answer
            for handle, answer in zip(handles, answers, strict=True)
        ]
        late.update(handle.cluster for handle in handles)
        return told


class LearnsAddressesAtTheLaunch(LocalEngine):
    def plan(self, request: ClusterRequest) -> dict[str, object]:
        return cast("dict[str, object]", without_fields(super().plan(request), ["addresses"]))


class BlocksTheLoop(LocalEngine):
    async def find(self, cluster: str) -> Handle | None:
        time.sleep(0.1)  # noqa: ASYNC251 - the lie
        return await super().find(cluster)


class PlansSomethingElse(LocalEngine):
    def plan(self, request: ClusterRequest) -> dict[str, object]:
        return {**super().plan(request), "price": 0}


class KnowsNoGroups(LocalEngine):
    def _description(self, request: ClusterRequest, plan: HostSpec, limits: dict[str, object]) -> dict[str, object]:
        return {**super()._description(request, plan, limits), "groups": []}


class BringsATypeTwice(LocalEngine):
    def instance_types(self) -> Sequence[InstanceType]:
        return [InstanceType(name="lab.small", vcpus=cpus, memory_gib=1.0) for cpus in (1, 2)]


class RefusesNothing(LocalEngine):
    def _prepare(self, request: ClusterRequest) -> Path:
        del request
        raise UnavailableError("something went wrong")


class TellsEachHostAnotherPort(LocalEngine):
    def _description(self, request: ClusterRequest, plan: HostSpec, limits: dict[str, object]) -> dict[str, object]:
        told = super()._description(request, plan, limits)
        return {**told, "port": int(str(told["port"])) + 10 * int(plan.host.removeprefix("algo-"))}


LIES: list[tuple[type[LocalEngine], str]] = [
    (ForgetsWhatDied, "test_a_cluster_is_found_after_its_agents_died_and_until_it_is_released"),
    (CallsAnOutageGone, "test_during_an_outage_nothing_is_known_and_nothing_is_gone"),
    (SortsItsAnswers, "test_observations_keep_the_order_of_the_handles"),
    (ReleasesInWordsOnly, "test_release_leaves_nothing"),
    (NoticesDeathsLate, "test_observations_keep_the_order_of_the_handles"),
    (LearnsAddressesAtTheLaunch, "test_the_plan_is_what_is_launched"),
    (BlocksTheLoop, "test_the_event_loop_is_never_blocked_for_long"),
    (PlansSomethingElse, "test_the_plan_is_what_is_launched"),
    (KnowsNoGroups, "test_each_host_of_two_groups_has_its_own_name_and_the_others"),
    (BringsATypeTwice, "test_instance_types_have_each_its_name_and_a_size_that_can_be"),
    (RefusesNothing, "test_what_cannot_be_is_refused_before_anything_is_launched"),
]


class World(LocalHarness):
    """A world in which an engine of another class stands for the local one."""

    kind: type[LocalEngine] = LocalEngine

    def new_engine(self) -> LocalEngine:
        return self.kind(data_dir=str(self.folder))


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "smx")
    yield world
    world.kind = LocalEngine
    for path in world.folder.glob("clusters/*/released"):
        path.unlink()
    await world.close()


@pytest.mark.parametrize(("liar", "test"), LIES, ids=lambda value: getattr(value, "__name__", ""))
async def test_each_lie_is_noticed(world: World, liar: type[LocalEngine], test: str) -> None:
    await getattr(EngineContract(), test)(world)
    world.kind = liar
    world.engine = world.new_engine()
    with pytest.raises((AssertionError, UnavailableError, pytest.fail.Exception)):
        await getattr(EngineContract(), test)(world)


@pytest.mark.parametrize(
    "test", ["test_observations_keep_the_order_of_the_handles", "test_a_cluster_of_which_one_host_died_is_gone"]
)
async def test_a_platform_that_notices_late_has_the_time_that_it_declares(world: World, test: str) -> None:
    world.kind, world.gone_within = NoticesDeathsLate, 10.0
    world.engine = world.new_engine()
    await getattr(EngineContract(), test)(world)


async def test_what_the_platform_fills_in_is_declared_and_not_planned(world: World) -> None:
    world.filled_in = frozenset({"addresses"})
    with pytest.raises(AssertionError, match="only the platform knows"):
        await EngineContract().test_the_plan_is_what_is_launched(world)
    world.kind = LearnsAddressesAtTheLaunch
    world.engine = world.new_engine()
    await EngineContract().test_the_plan_is_what_is_launched(world)


@pytest.mark.parametrize("test", [name for name in dir(NetworkingGroup) if name.startswith("test_")])
async def test_hosts_that_do_not_meet_are_noticed(world: World, monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    world.kind = TellsEachHostAnotherPort
    world.engine = world.new_engine()
    monkeypatch.setattr(networking, "PATIENCE", 1)
    with pytest.raises(AssertionError, match=r"timed out|refused"):
        await getattr(EngineContract(), test)(world)


def test_an_exception_to_the_contract_is_declared_strict_and_with_its_reason() -> None:
    class Moon(EngineContract):
        expected_failures = {  # noqa: RUF012 - as an engine's author writes it
            "test_a_handle_survives_json": never("The Moon has no JSON."),
            "test_release_leaves_nothing": notimpl("We have no broom."),
            "test_an_acquire_that_is_cancelled_can_be_released_or_finished": notyet("They launch all or nothing."),
        }

    marks = {
        name: [mark for mark in getattr(Moon, name).pytestmark if mark.name == "xfail"]
        for name in Moon.expected_failures
    }
    assert [mark.kwargs for mark in marks["test_a_handle_survives_json"]] == [
        {"strict": True, "reason": "never: The Moon has no JSON."}
    ]
    assert marks["test_release_leaves_nothing"][0].kwargs["reason"] == "notimpl: We have no broom."
    parametrized = Moon.test_an_acquire_that_is_cancelled_can_be_released_or_finished
    assert sorted(mark.name for mark in parametrized.pytestmark) == ["parametrize", "xfail"]
    assert "harness" in inspect.signature(Moon.test_a_handle_survives_json).parameters
    assert not hasattr(EngineContract.test_a_handle_survives_json, "pytestmark")


def test_an_exception_that_names_no_test_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="Did you mean test_release_leaves_nothing"):
        type("Moon", (EngineContract,), {"expected_failures": {"test_release_leaves_noting": never("…")}})


async def test_a_block_of_the_loop_is_measured_and_waiting_is_not() -> None:
    async with LoopLag() as blocked:
        time.sleep(0.08)  # noqa: ASYNC251 - what is measured
    async with LoopLag() as waited:
        await asyncio.wait_for(asyncio.shield(asyncio.to_thread(time.sleep, 0.08)), 5)
    assert 0.06 < blocked.max_lag < 0.5
    assert waited.max_lag < 0.05

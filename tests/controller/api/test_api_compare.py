"""What the API says of two jobs, and what it adds to the record of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest_asyncio
from records import a_job, a_spec, an_id
from serving import World, served

from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from jupyter_smx.model.records.job import Job


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        yield world


def run(number: int, base_name: str = "digits", **wish: Any) -> Job:
    spec = a_spec(engine="fake", base_name=base_name, **wish)
    return a_job(number, spec=spec, state=SecondaryStatus.COMPLETED, started_at=10.0, ended_at=3_610.0)


async def test_two_jobs_are_compared_in_the_order_that_is_asked_for(world: World) -> None:
    world.books.save(jobs=[run(1, hyperparameters={"lr": "1"}), run(2, hyperparameters={"lr": "2"})])
    said = (await world.ask("GET", f"/v1/jobs/{an_id(1)}/diff?from={an_id(2)}")).json()
    assert (said["before"], said["after"]) == (run(2).name, run(1).name)
    assert said["changes"] == [{"section": "hyperparameter", "name": "lr", "before": "2", "after": "1"}]
    assert said["sentence"] == "No differences except hyperparameter lr (2 → 1)."


async def test_without_another_name_it_is_the_run_of_the_same_name_before(world: World) -> None:
    world.books.save(jobs=[run(1), run(2, source="y = 2\n"), run(3, base_name="other"), run(4, source="y = 4\n")])
    said = (await world.ask("GET", f"/v1/jobs/{an_id(4)}/diff")).json()
    assert said["before"] == run(2).name
    assert said["code"][-2:] == ["-y = 2", "+y = 4"]
    first = await world.ask("GET", f"/v1/jobs/{an_id(1)}/diff")
    assert (first.status, first.json()["before"], first.json()["changes"]) == (200, "", [])
    assert first.json()["sentence"] == f"digits has no run before {run(1).name}."


async def test_a_comparison_with_what_is_not_known_names_it(world: World) -> None:
    world.books.save(jobs=[run(1)])
    said = await world.ask("GET", f"/v1/jobs/{an_id(1)}/diff?from=nobody")
    assert said.status == 404
    assert "nobody" in said.json()["message"]


async def test_a_record_comes_with_what_lists_show_and_with_its_bill(world: World) -> None:
    groups = (InstanceGroup(instance_type="ml.m5.large", instance_count=2),)
    world.books.save(jobs=[run(1, instance_groups=groups)])
    record = (await world.ask("GET", f"/v1/jobs/{an_id(1)}")).json()
    (listed,) = (await world.ask("GET", "/v1/jobs")).json()["jobs"]
    assert record["summary"] == listed
    bill = record["bill"]
    seconds = {"training_seconds": 3_600.0, "billable_seconds": 3_600.0, "retained_seconds": 0.0}
    of_a_step = {"steps": None, "step_seconds": None, "cost_per_step": None}
    money = {"price_per_hour": 0.23, "cost": 0.23}
    group = {"name": "homogeneousCluster", "instance_type": "ml.m5.large", "instance_count": 2, "until": "", **money}
    assert bill == {**money, **seconds, **of_a_step, "groups": [group], "platform_usage": ""}
    assert record["cost"] == listed["cost"] == bill["cost"]

"""Arrays over the API: one request for all tasks, counts and tasks in one answer, a long poll, a stop."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from records import an_id

from jupyter_smx.model.spec.array import task_id
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from serving import World

ARRAY = an_id(7)
MANY = 1_000
ENOUGH = 5.0
"""Seconds in which a thousand tasks must be accepted, on whatever machine."""


def body(world: World, size: int, **fields: Any) -> dict[str, Any]:
    spec = world.wish()["spec"]
    tasks = [{"label": f"lr={n}", "hyperparameters": {"lr": str(n)}} for n in range(size)]
    return {"id": ARRAY, "spec": spec, "tasks": tasks, "title": "sweep lr"} | fields


async def test_one_request_makes_all_tasks_and_one_answer_counts_them(world: World) -> None:
    answer = await world.ask("POST", "/v1/arrays", body(world, 4, max_concurrent=1))
    assert answer.status == 201
    assert (await world.ask("POST", "/v1/arrays", body(world, 4, max_concurrent=1))).status == 200
    found = (await world.ask("GET", "/v1/arrays/train")).json()
    assert sum(found["counts"].values()) == found["size"] == 4
    assert [task["array"]["label"] for task in found["tasks"]] == ["lr=0", "lr=1", "lr=2", "lr=3"]
    assert "source" not in str(found)
    (listed,) = (await world.ask("GET", "/v1/arrays?limit=5")).json()["arrays"]
    assert listed["name"] == found["name"]
    assert "tasks" not in listed
    one = await world.ask("GET", f"/v1/jobs/{found['name']}-2")
    assert one.json()["spec"]["hyperparameters"] == {"lr": "2"}


async def test_a_thousand_tasks_are_taken_while_somebody_waits(world: World) -> None:
    began = time.monotonic()
    answer = await world.ask("POST", "/v1/arrays", body(world, MANY, max_concurrent=1))
    assert answer.status == 201
    assert time.monotonic() - began < ENOUGH
    assert len((await world.ask("GET", f"/v1/arrays/{ARRAY}")).json()["tasks"]) == MANY
    began = time.monotonic()
    stopped = await world.ask("POST", f"/v1/arrays/{ARRAY}/stop")
    assert time.monotonic() - began < ENOUGH
    assert stopped.json()["counts"]["pending"] == 0


async def test_a_long_poll_answers_when_one_more_task_has_ended(world: World) -> None:
    await world.ask("POST", "/v1/arrays", body(world, 2, max_concurrent=1))
    waiting = asyncio.create_task(world.ask("GET", f"/v1/arrays/{ARRAY}?ended=0&wait=600&tasks=0"))
    await world.somebody_waits()
    idle = world.books.jobs[task_id(ARRAY, 1)]
    world.books.save(jobs=[replace(idle, state=SecondaryStatus.STOPPED)])
    answer = (await asyncio.wait_for(waiting, 15)).json()
    assert answer["counts"]["stopped"] == 1
    assert answer["tasks"] == []


async def test_an_array_ends_with_its_last_task(world: World) -> None:
    await world.ask("POST", "/v1/arrays", body(world, 2, max_concurrent=1))
    for index, at in enumerate((2_000.0, 1_000.0)):
        assert (await world.ask("GET", f"/v1/arrays/{ARRAY}?tasks=0")).json()["ended_at"] is None
        task = world.books.jobs[task_id(ARRAY, index)]
        world.books.save(jobs=[replace(task, state=SecondaryStatus.STOPPED, ended_at=at)])
    (listed,) = (await world.ask("GET", "/v1/arrays?limit=5")).json()["arrays"]
    assert listed["ended_at"] == 2_000.0
    await world.ask("DELETE", f"/v1/jobs/{task_id(ARRAY, 0)}")
    assert (await world.ask("GET", f"/v1/arrays/{ARRAY}?tasks=0")).json()["ended_at"] == 2_000.0


async def test_the_end_of_an_array_is_found_beside_a_damaged_task(world: World) -> None:
    await world.ask("POST", "/v1/arrays", body(world, 3))
    store = world.books.store.arrays
    assert store.last_end(ARRAY) is None
    for index, at in enumerate((2_000.5, 1_000.0, 3_000.0)):
        task = world.books.jobs[task_id(ARRAY, index)]
        world.books.save(jobs=[replace(task, state=SecondaryStatus.STOPPED, ended_at=at)])
    assert store.last_end(ARRAY) == 3_000.0
    with sqlite3.connect(world.folder / "smx.sqlite") as database:
        database.execute("UPDATE jobs SET summary = ? WHERE id = ?", (b"{\xff", task_id(ARRAY, 2)))
    assert store.last_end(ARRAY) == 2_000.5
    assert store.last_end(an_id(8)) is None


async def test_an_array_that_is_no_array_is_refused_with_its_field(world: World) -> None:
    answer = await world.ask("POST", "/v1/arrays", body(world, 0))
    assert (answer.status, answer.json()["field"]) == (400, "tasks")
    answer = await world.ask("GET", "/v1/arrays/nobody")
    assert (answer.status, answer.json()["code"]) == (404, "ResourceNotFound")

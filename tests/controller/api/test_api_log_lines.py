"""Lines of logs with their times over the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from msgspec.structs import replace
from records import a_job, a_spec, an_id
from serving import World, served

from jupyter_smx.controller.telemetry.log_times import ENTRY, HEADER
from jupyter_smx.model.records.job import Attempt
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        groups = (InstanceGroup(name="a", instance_type="local", instance_count=2),)
        earlier = Attempt(number=1, cluster="w", reason="lost", started_at=50.0, ended_at=60.0)
        spec = a_spec(engine="fake", instance_groups=groups)
        world.books.save(jobs=[a_job(spec=spec, cluster="x", attempt=2, attempts=(earlier,))])
        logs = world.folder / "jobs" / an_id(1) / "logs"
        (logs / "attempt-2").mkdir(parents=True)
        (logs / "algo-1.log").write_bytes(b"old 1\nold 2")
        (logs / "attempt-2" / "algo-1.log").write_bytes(b"first\nsecond\nthird")
        (logs / "attempt-2" / "algo-1.times").write_bytes(HEADER + ENTRY.pack(0, 70_000) + ENTRY.pack(6, 71_000))
        yield world


async def ask(world: World, query: str) -> dict[str, object]:
    answer = await world.ask("GET", f"/v1/jobs/train/logs/lines?{query}")
    assert answer.status == 200, answer.content
    page: dict[str, object] = answer.json()
    return page


async def test_lines_come_with_offset_and_time(world: World) -> None:
    page = await ask(world, "")
    assert page == {
        "lines": [[0, 70_000, "first"], [6, 71_000, "second"]],
        "begin": 0,
        "end": 13,
        "total": 18,
        "first_at": None,
        "last_at": None,
        "is_final": False,
        "has_more": False,
        "attempt": 2,
        "attempts": 2,
    }


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("limit=1", ["first"]),
        ("after=6", ["second"]),
        ("before=6", ["first"]),
        ("since=70001", ["second"]),
        ("until=71000", ["first"]),
        ("from_end=1&limit=1", ["second"]),
        ("host=algo-2", []),
        ("limit=0", []),
    ],
)
async def test_a_query_selects_lines(world: World, query: str, texts: list[str]) -> None:
    lines: object = (await ask(world, query))["lines"]
    assert isinstance(lines, list)
    assert [line[2] for line in lines] == texts


async def test_an_earlier_run_is_final_and_has_times_from_its_begin_on_without_an_index(world: World) -> None:
    page = await ask(world, "attempt=1")
    assert (page["lines"], page["is_final"]) == ([[0, 50_000, "old 1"], [6, 50_001, "old 2"]], True)


async def test_the_last_line_of_a_job_that_ended_needs_no_newline(world: World) -> None:
    (job,) = world.books.jobs.values()
    world.books.save(jobs=[replace(job, state=SecondaryStatus.COMPLETED, ended_at=80.0)])
    assert (await ask(world, "after=13"))["lines"] == [[13, 71_000, "third"]]
    page = await ask(world, "limit=0")
    assert (page["first_at"], page["last_at"]) == (70_000, 71_000)


@pytest.mark.parametrize(("query", "status"), [("host=algo-9", 404), ("attempt=3", 404), ("since=x", 400)])
async def test_a_request_that_makes_no_sense_is_refused(world: World, query: str, status: int) -> None:
    assert (await world.ask("GET", f"/v1/jobs/train/logs/lines?{query}")).status == status


async def test_a_long_log_is_read_in_pages_by_a_thread(world: World) -> None:
    path = world.folder / "jobs" / an_id(1) / "logs" / "attempt-2" / "algo-1.log"
    path.write_bytes(b"0123456789abcde\n" * 200_000)
    texts, after = 0, 0
    while True:
        page = await ask(world, f"after={after}&limit=10000")
        assert isinstance(page["lines"], list)
        texts += len(page["lines"])
        if not page["has_more"]:
            break
        after = page["end"]
    assert (texts, page["end"], page["total"]) == (200_000, 3_200_000, 3_200_000)

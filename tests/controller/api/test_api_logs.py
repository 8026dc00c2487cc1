"""Logs over the API: their end, their search, the whole of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from records import a_job, a_spec, an_id
from serving import World, served

from jupyter_smx.model.spec.instance import InstanceGroup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CONTENT = b"first\nsecond Error\nthird\n"


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(tmp_path) as world:
        groups = (InstanceGroup(name="a", instance_type="local", instance_count=2),)
        spec = a_spec(engine="fake", instance_groups=groups)
        world.books.save(jobs=[a_job(spec=spec, cluster="x", attempt=2)])
        logs = world.folder / "jobs" / an_id(1) / "logs"
        (logs / "attempt-2").mkdir(parents=True)
        (logs / "algo-1.log").write_bytes(b"the attempt before: Error\n")
        (logs / "attempt-2" / "algo-1.log").write_bytes(CONTENT)
        yield world


async def test_the_end_comes_by_its_size(world: World) -> None:
    answer = await world.ask("GET", "/v1/jobs/train/logs?last=6")
    assert answer.content == b"third\n"
    said = {name: answer.headers[f"X-Smx-{name}"] for name in ("Offset", "Total", "Hosts", "Attempt", "Attempts")}
    assert said == {"Offset": "25", "Total": "25", "Hosts": "algo-1,algo-2", "Attempt": "2", "Attempts": "2"}


async def test_more_than_there_is_begins_at_the_first_byte(world: World) -> None:
    answer = await world.ask("GET", "/v1/jobs/train/logs?last=1000&limit=5")
    assert (answer.content, answer.headers["X-Smx-Offset"]) == (b"first", "5")


async def test_words_are_found_in_the_log_that_is_meant(world: World) -> None:
    found = await world.ask("GET", "/v1/jobs/train/logs/search?text=error")
    assert found.json() == {"places": [13], "reached": 0, "total": 25}
    assert (await world.ask("GET", "/v1/jobs/train/logs/search?text=error&case=1")).json()["places"] == []
    assert (await world.ask("GET", "/v1/jobs/train/logs/search?text=error&attempt=1")).json()["places"] == [20]
    assert (await world.ask("GET", "/v1/jobs/train/logs/search?text=error&host=algo-2")).json()["total"] == 0
    assert (await world.ask("GET", "/v1/jobs/train/logs/search?text=i&before=13&after=1")).json() == {
        "places": [1],
        "reached": 1,
        "total": 25,
    }


@pytest.mark.parametrize(("query", "field"), [("", "text"), ("text=a&before=x", "before"), ("text=a&case=-1", "case")])
async def test_a_search_that_cannot_be_made_says_why(world: World, query: str, field: str) -> None:
    answer = await world.ask("GET", f"/v1/jobs/train/logs/search?{query}")
    assert (answer.status, answer.json()["field"]) == (400, field)


async def test_the_whole_log_comes_with_its_length(world: World) -> None:
    path = world.folder / "jobs" / an_id(1) / "logs" / "attempt-2" / "algo-1.log"
    path.write_bytes(CONTENT * 50_000)
    answer = await world.ask("GET", "/v1/jobs/train/logs/whole")
    assert (answer.content == CONTENT * 50_000, answer.headers["Content-Length"]) == (True, str(25 * 50_000))
    assert (await world.ask("GET", "/v1/jobs/train/logs/whole?attempt=1")).content == b"the attempt before: Error\n"


async def test_a_log_that_has_nothing_yet_is_an_empty_file(world: World) -> None:
    answer = await world.ask("GET", "/v1/jobs/train/logs/whole?host=algo-2")
    assert (answer.status, answer.content) == (200, b"")
    assert (await world.ask("GET", "/v1/jobs/train/logs/whole?host=../x")).status == 404


class TestGap:
    """The middle of the log is left out: bytes from 65,536 to 131,072."""

    BEGIN, END = 65_536, 131_072

    @pytest.fixture(autouse=True)
    def gapped(self, world: World, punches: None) -> None:  # noqa: ARG002 - not on every disk
        path = world.folder / "jobs" / an_id(1) / "logs" / "attempt-2" / "algo-1.log"
        with path.open("wb") as file:
            file.write(b"head\n".rjust(self.BEGIN, b"."))
            file.seek(self.END)
            file.write(b"tail\n")

    @pytest.mark.parametrize(
        ("query", "content", "following"),
        [
            ("offset=65531", b"head\n", BEGIN),
            ("offset=65536", b"tail\n", END + 5),
            ("offset=100000", b"tail\n", END + 5),
            ("last=30000", b"tail\n", END + 5),
            ("before=131077", b"tail\n", END + 5),
            ("before=131072&limit=5", b"head\n", BEGIN),
            ("before=100000&limit=5", b"head\n", BEGIN),
        ],
    )
    async def test_a_reader_passes_over_it(self, world: World, query: str, content: bytes, following: int) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/logs?{query}")
        assert (answer.content, answer.headers["X-Smx-Offset"]) == (content, str(following))
        assert answer.headers["X-Smx-Total"] == str(self.END + 5)

    async def test_a_download_has_what_is_there_and_says_how_much_that_is(self, world: World) -> None:
        answer = await world.ask("GET", "/v1/jobs/train/logs/whole")
        assert answer.content == b"head\n".rjust(self.BEGIN, b".") + b"tail\n"
        assert answer.headers["Content-Length"] == str(self.BEGIN + 5)

    async def test_a_search_finds_both_ends(self, world: World) -> None:
        found = await world.ask("GET", "/v1/jobs/train/logs/search?text=A")
        assert found.json() == {"places": [self.END + 1, self.BEGIN - 3], "reached": 0, "total": self.END + 5}

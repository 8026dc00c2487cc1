"""Logs of attempts over the API: the newest unless another is asked for, and an earlier one is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from records import a_job, a_spec, an_id
from serving import served

from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from pathlib import Path

    from serving import World


def begun_again(world: World) -> None:
    job = a_job(1, state=SecondaryStatus.TRAINING, attempt=2, cluster="gone", spec=a_spec(engine="fake", retries=1))
    world.books.save(jobs=[job])
    logs = world.folder / "jobs" / an_id(1) / "logs"
    (logs / "attempt-2").mkdir(parents=True)
    (logs / "algo-1.log").write_bytes(b"first")
    (logs / "attempt-2" / "algo-1.log").write_bytes(b"second")


@pytest.mark.parametrize(
    ("attempt", "content", "final"),
    [
        ("", b"second", "0"),
        ("&attempt=0", b"second", "0"),
        ("&attempt=1", b"first", "1"),
        ("&attempt=2", b"second", "0"),
    ],
)
async def test_each_attempt_has_its_own_log(tmp_path: Path, attempt: str, content: bytes, final: str) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        answer = await world.ask("GET", f"/v1/jobs/train/logs?offset=0{attempt}")
        assert (answer.content, answer.headers["X-Smx-Final"]) == (content, final)
        assert answer.headers["X-Smx-Attempts"] == "2"


async def test_whoever_waits_for_more_of_an_attempt_learns_that_it_is_over(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        job = world.books.jobs[an_id(1)]
        waiting = asyncio.create_task(world.ask("GET", "/v1/jobs/train/logs?offset=6&wait=600&attempt=2"))
        await world.somebody_waits()
        world.books.save(jobs=[replace(job, attempt=3, state=SecondaryStatus.STARTING)])
        answer = await waiting
        assert (answer.headers["X-Smx-Final"], answer.headers["X-Smx-Attempt"]) == ("1", "2")


@pytest.mark.parametrize("route", ["logs", "logs/search", "logs/whole", "metrics", "usage", "advice"])
@pytest.mark.parametrize("attempt", ["-1", "3", "9999", "1e400", "nan"])
async def test_an_attempt_that_has_not_begun_is_not_found(tmp_path: Path, route: str, attempt: str) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        answer = await world.ask("GET", f"/v1/jobs/train/{route}?attempt={attempt}")
        assert answer.status == 404
        body = answer.json()
        assert (body["code"], body["field"], body["value"]) == ("ResourceNotFound", "attempt", attempt)
        assert body["rule"] == "It has begun 2, and the first is 1."


async def test_an_attempt_that_is_no_number_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        begun_again(world)
        answer = await world.ask("GET", "/v1/jobs/train/logs?attempt=first")
        assert (answer.status, answer.json()["field"]) == (400, "attempt")

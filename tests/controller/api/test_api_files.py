from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from records import a_job, a_spec, an_id, finished

from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from serving import World


class TestLogs:
    @pytest.fixture
    def log(self, world: World) -> Path:
        world.books.save(jobs=[a_job(spec=a_spec(engine="fake"), cluster="x")])
        path = world.folder / "jobs" / an_id(1) / "logs" / "algo-1.log"
        path.parent.mkdir(parents=True)
        return path

    async def test_are_read_by_a_cursor(self, world: World, log: Path) -> None:
        log.write_bytes(b"0123456789")  # noqa: ASYNC240
        answer = await world.ask("GET", "/v1/jobs/train/logs?offset=3&limit=4")
        assert answer.content == b"3456"
        assert {name: answer.headers[f"X-Smx-{name}"] for name in ("Offset", "Total", "Final", "Host")} == {
            "Offset": "7",
            "Total": "10",
            "Final": "0",
            "Host": "algo-1",
        }
        beyond = await world.ask("GET", "/v1/jobs/train/logs?offset=10")
        assert (beyond.content, beyond.headers["X-Smx-Offset"]) == (b"", "10")

    async def test_that_have_nothing_yet_wait_for_the_first_byte(self, world: World, log: Path) -> None:
        waiting = asyncio.create_task(world.ask("GET", "/v1/jobs/train/logs?wait=600"))
        await world.somebody_waits()
        log.write_bytes(b"x")  # noqa: ASYNC240
        world.service._log_signals.notify_all(an_id(1))
        assert (await waiting).content == b"x"

    async def test_of_a_finished_job_end_at_the_last_byte(self, world: World, log: Path) -> None:
        log.write_bytes(b"abc")  # noqa: ASYNC240
        waiting = asyncio.create_task(world.ask("GET", "/v1/jobs/train/logs?offset=3&wait=600"))
        await world.somebody_waits()
        world.books.save(jobs=[finished()])
        assert (await waiting).headers["X-Smx-Final"] == "1"
        assert (await world.ask("GET", "/v1/jobs/train/logs?offset=0&limit=2")).headers["X-Smx-Final"] == "0"

    @pytest.mark.usefixtures("log")
    async def test_of_a_host_that_is_none(self, world: World) -> None:
        answer = await world.ask("GET", "/v1/jobs/train/logs?host=../../x")
        assert (answer.status, answer.json()["field"]) == (404, "host")

    @pytest.mark.usefixtures("log")
    @pytest.mark.parametrize("offset", ["-1", "nan", "x"])
    async def test_from_an_offset_that_is_no_number(self, world: World, offset: str) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/logs?offset={offset}")
        assert (answer.status, answer.json()["field"]) == (400, "offset")


class TestArtifacts:
    @pytest.fixture(autouse=True)
    def _files(self, world: World) -> None:
        world.books.save(jobs=[finished()])
        folder = world.folder / "jobs" / an_id(1)
        (folder / "artifacts" / "outputs" / "a b").mkdir(parents=True)
        (folder / "artifacts" / "model.tar.gz").write_bytes(b"m" * 1_000_000)
        (folder / "artifacts" / "outputs" / "a b" / "ü").write_bytes(b"u")
        (folder / "artifacts" / "link").symlink_to("/etc/passwd")
        (folder / "result.pkl").write_bytes(b"r")

    @pytest.mark.parametrize(
        ("name", "size"), [("model.tar.gz", 1_000_000), ("outputs/a%20b/%C3%BC", 1), ("result.pkl", 1)]
    )
    async def test_come_whole(self, world: World, name: str, size: int) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/artifacts/{name}")
        assert (answer.status, len(answer.content)) == (200, size)

    async def test_that_somebody_stops_reading_are_no_mistake_of_ours(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (world.folder / "jobs" / an_id(1) / "artifacts" / "large").open("wb") as large:
            large.truncate(2**28)
        _, writer = await asyncio.open_unix_connection(world.socket)
        writer.write(b"GET /v1/jobs/train/artifacts/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: world.service.server.connections == 1, "it is read")
        writer.transport.abort()
        await eventually(lambda: world.service.server.connections == 0, "it is read no more")
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

    @pytest.mark.parametrize(
        "name",
        ["../cell.py", "..%2f..%2f..%2fsmx.sqlite", "%2fetc%2fpasswd", "link", "no", "outputs", "a%00b", "n" * 5000],
        ids=lambda name: name[:20],
    )
    async def test_lead_nowhere_else(self, world: World, name: str) -> None:
        answer = await world.ask("GET", f"/v1/jobs/train/artifacts/{name}")
        assert answer.status == 404
        assert answer.json()["code"] == "ResourceNotFound"

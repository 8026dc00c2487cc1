"""The two sources of a log at the end of its job: the files that its host left on our disk, and the agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pulling import CONTENT, JOB, came, pulling

from jupyter_smx.controller.telemetry import log_collector
from jupyter_smx.controller.transfer.host_spool import HostSpool

if TYPE_CHECKING:
    from pathlib import Path

    from fake_agent import FakeAgent

    from jupyter_smx.controller.agents.connections import Agents
    from jupyter_smx.controller.telemetry.log_collector import LogCollector


async def drained(agents: Agents, pump: LogCollector, remains: Path, total: int = len(CONTENT)) -> None:
    stream = agents.stream("c1", "algo-1")
    await asyncio.wait_for(pump.drain(JOB, "algo-1", total, stream, HostSpool(remains)), 10)


def left(remains: Path, content: bytes = CONTENT) -> Path:
    remains.mkdir(parents=True)
    (remains / "log").write_bytes(content)
    return remains


def asked(agent: FakeAgent) -> bool:
    return any(header["op"] == "read" for header in agent.seen)


@pytest.mark.parametrize("place", ["spool", "../elsewhere"])
@pytest.mark.parametrize("short", [log_collector.INLINE_READ_LIMIT, 0])
async def test_what_lies_on_a_disk_of_ours_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, short: int
) -> None:
    threads = []
    in_thread = asyncio.to_thread

    def counted(work: Any, *given: Any) -> Any:
        threads.append(work)
        return in_thread(work, *given)

    monkeypatch.setattr(log_collector.asyncio, "to_thread", counted)
    monkeypatch.setattr(log_collector, "INLINE_READ_LIMIT", short)
    top = tmp_path / "data"
    top.mkdir()
    async with pulling(top) as (agent, agents, pump):
        await drained(agents, pump, left((top / place).resolve() / JOB.id))
        assert not asked(agent)
    assert came(top) == CONTENT
    # A thread reads a long file, or one that may be on another disk than the records, so as to block no request.
    assert bool(threads) is (not short or place != "spool")


@pytest.mark.parametrize("found", [None, b"", CONTENT[:10]])
async def test_what_is_missing_there_comes_from_the_agent(tmp_path: Path, found: bytes | None) -> None:
    remains = tmp_path / "spool" / JOB.id
    if found is not None:
        left(remains, found)
    async with pulling(tmp_path) as (_, agents, pump):
        await drained(agents, pump, remains)
    assert came(tmp_path) == CONTENT


async def test_for_nothing_nobody_is_asked_and_no_thread_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def thread(*_: object) -> None:
        pytest.fail("a thread was begun")

    async with pulling(tmp_path) as (agent, agents, pump):
        monkeypatch.setattr(log_collector.asyncio, "to_thread", thread)
        await drained(agents, pump, left(tmp_path / "spool" / JOB.id, b""), total=0)
        assert not asked(agent)


async def test_what_is_under_way_at_the_end_is_awaited_and_no_loss_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pulling(tmp_path) as (_, agents, pump):
        pump.on_growth(JOB, "algo-1", len(CONTENT))
        await pump.drain(JOB, "algo-1", len(CONTENT), agents.stream("c1", "algo-1"), HostSpool())
    assert came(tmp_path) == CONTENT
    assert "incomplete" not in caplog.text

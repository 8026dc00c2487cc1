"""The two ways to a log at the end of its job: the files that its host left on a disk of ours, and the agent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from fake_agent import Doors, FakeAgent
from records import a_job

from jupyter_smx.controller import log_pump
from jupyter_smx.controller.agents import Agents
from jupyter_smx.controller.log_pump import LogPump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JOB = a_job(cluster="c1", lease=1)
CONTENT = b"0123456789" * 1000


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[tuple[FakeAgent, Agents, LogPump]]:
    async with FakeAgent(folder / "a") as agent:
        agent.files[(JOB.id, "log")] = CONTENT
        doors = Doors(agent)
        agents = Agents(lambda *_: None, lambda *_: None)
        pump = LogPump(folder / "jobs", agents, lambda _job: None)
        await agents.open(doors, doors.handle(), 1)  # type: ignore[arg-type]
        yield agent, agents, pump
        await pump.close()
        await agents.close_all()


async def drained(agents: Agents, pump: LogPump, remains: Path, total: int = len(CONTENT)) -> None:
    stream = agents.stream("c1", "algo-1")
    await asyncio.wait_for(pump.drain(JOB, "algo-1", total, stream, remains), 10)


def left(remains: Path, content: bytes = CONTENT) -> Path:
    remains.mkdir(parents=True)
    (remains / "log").write_bytes(content)
    return remains


def came(folder: Path) -> bytes:
    return (folder / "jobs" / JOB.id / "logs" / "algo-1.log").read_bytes()


def asked(agent: FakeAgent) -> bool:
    return any(header["op"] == "read" for header in agent.seen)


@pytest.mark.parametrize("place", ["spool", "../elsewhere"])
@pytest.mark.parametrize("short", [log_pump.SHORT, 0])
async def test_what_lies_on_a_disk_of_ours_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, short: int
) -> None:
    threads = []
    in_thread = asyncio.to_thread

    def counted(work: Any, *given: Any) -> Any:
        threads.append(work)
        return in_thread(work, *given)

    monkeypatch.setattr(log_pump.asyncio, "to_thread", counted)
    monkeypatch.setattr(log_pump, "SHORT", short)
    top = tmp_path / "data"
    top.mkdir()
    async with world(top) as (agent, agents, pump):
        await drained(agents, pump, left((top / place).resolve() / JOB.id))
        assert not asked(agent)
    assert came(top) == CONTENT
    # What is long, or may be on another disk than the records, holds up nobody else.
    assert bool(threads) is (not short or place != "spool")


@pytest.mark.parametrize("found", [None, b"", CONTENT[:10]])
async def test_what_is_missing_there_comes_from_the_agent(tmp_path: Path, found: bytes | None) -> None:
    remains = tmp_path / "spool" / JOB.id
    if found is not None:
        left(remains, found)
    async with world(tmp_path) as (_, agents, pump):
        await drained(agents, pump, remains)
    assert came(tmp_path) == CONTENT


async def test_for_nothing_nobody_is_asked_and_no_thread_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def thread(*_: object) -> None:
        pytest.fail("a thread was begun")

    async with world(tmp_path) as (agent, agents, pump):
        monkeypatch.setattr(log_pump.asyncio, "to_thread", thread)
        await drained(agents, pump, left(tmp_path / "spool" / JOB.id, b""), total=0)
        assert not asked(agent)

"""Two controllers pull one log for a moment, the one that was replaced while it slept and the one that replaced it."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

import pytest
from fake_agent import Doors, FakeAgent
from pulling import CONTENT, JOB, came, pulling

from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.telemetry import log_collector, log_copy
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_late_one_writes_the_same_bytes_over_themselves(tmp_path: Path) -> None:
    job = JOB
    async with FakeAgent(tmp_path / "a") as agent:
        agent.files[(job.id, "log")] = CONTENT
        doors = Doors(agent)
        old, new = (Agents(lambda *_: None, lambda *_: None) for _ in range(2))
        pumps = [LogCollector(tmp_path / "jobs", agents, lambda _job: None) for agents in (old, new)]
        for agents in (old, new):
            await agents.open(doors, doors.handle(), 1)  # type: ignore[arg-type]
        agent.held = {"read"}
        pumps[0].on_growth(job, "algo-1", len(CONTENT))
        await agent.heard("read")
        agent.held = set()
        await pumps[1].drain(job, "algo-1", len(CONTENT), new.stream("c1", "algo-1"))
        agent.let_go()
        await asyncio.wait_for(pumps[0].drain(job, "algo-1", len(CONTENT), old.stream("c1", "algo-1")), 10)
        for pump, agents in zip(pumps, (old, new), strict=True):
            await pump.close()
            await agents.close_all()
    assert came(tmp_path) == CONTENT


@pytest.mark.parametrize("refused", ["open", "write"])
async def test_a_log_that_the_disk_refused_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    async with pulling(tmp_path) as (_, _, pump):
        tried = asyncio.Event()

        def full(*_: object) -> int:
            tried.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(log_collector, "RETRY_DELAY", 0.01)
        with monkeypatch.context() as patch:
            patch.setattr(log_copy.os, "open" if refused == "open" else "pwrite", full)
            pump.on_growth(JOB, "algo-1", len(CONTENT))
            await asyncio.wait_for(tried.wait(), 10)
            tried.clear()
            await asyncio.wait_for(tried.wait(), 10)
        await eventually(lambda: pump.size(JOB.id, "algo-1") == len(CONTENT), "the rest came")
    assert came(tmp_path) == CONTENT

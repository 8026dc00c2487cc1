"""A log collector connected to an agent that has the log of one job; apart, because two test files share it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fake_agent import Doors, FakeAgent
from records import a_job

from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.telemetry.log_collector import LogCollector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JOB = a_job(cluster="c1", lease=1)
CONTENT = b"0123456789" * 1000


@asynccontextmanager
async def pulling(folder: Path, *, is_network: bool = False) -> AsyncIterator[tuple[FakeAgent, Agents, LogCollector]]:
    async with FakeAgent(folder / "a") as agent:
        agent.files[(JOB.id, "log")] = CONTENT
        doors = Doors(agent)
        agents = Agents(lambda *_: None, lambda *_: None)
        pump = LogCollector(folder / "jobs", agents, lambda _job: None, is_network=is_network)
        await agents.open(doors, doors.handle(), 1)  # type: ignore[arg-type]
        yield agent, agents, pump
        await pump.close()
        await agents.close_all()


def came(folder: Path) -> bytes:
    """Read what is here of the log."""
    return (folder / "jobs" / JOB.id / "logs" / "algo-1.log").read_bytes()

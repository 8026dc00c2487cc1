"""The connection to a host's agent, which does not use the daemon: one that hangs blocks no request to an agent."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fake_engine import HANDLE, engine_at

from jupyter_smx.engines.docker import daemon_registry
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

    from fake_dockerd import FakeDockerd


@pytest.fixture
def hanging(daemon: FakeDockerd, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDockerd]:
    """Provide a daemon that accepts every request and answers none."""
    answer, go = daemon.answer, threading.Event()

    def hang(what: str, body: dict[str, Any]) -> tuple[int, object]:
        daemon.asked.append(what)
        go.wait(30)
        return answer(what, body)

    monkeypatch.setattr(daemon, "answer", hang)
    yield daemon
    go.set()


async def test_a_host_is_reached_although_its_daemon_hangs(
    hanging: FakeDockerd, agent: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_registry, "_CONNECT_CHECK_TIMEOUT", 0.1)
    engine = engine_at(hanging, tmp_path)
    _, writer = await asyncio.wait_for(engine.connect(HANDLE, "algo-1"), 5)
    agent.accept()[0].close()
    writer.close()
    agent.close()
    with pytest.raises(
        UnavailableError, match=r"it did not answer within 100 ms"
    ):  # nor does it wait for the daemon if there is no agent
        await asyncio.wait_for(engine.connect(HANDLE, "algo-1"), 5)


async def test_who_gives_up_on_the_way_leaves_no_visitor_at_the_agent(
    hanging: FakeDockerd, agent: socket.socket, tmp_path: Path
) -> None:
    connecting = asyncio.create_task(engine_at(hanging, tmp_path).connect(HANDLE, "algo-1"))
    await eventually(lambda: hanging.asked, "the daemon is asked whether it is paused")
    visitor, _ = agent.accept()
    connecting.cancel()
    await asyncio.wait({connecting})
    with visitor:
        visitor.settimeout(10)
        assert await asyncio.to_thread(visitor.recv, 1) == b"", "the visitor hung up"

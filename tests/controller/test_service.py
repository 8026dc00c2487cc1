"""The service around the core: what goes wrong in it keeps nobody from their jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from serving import World

from jupyter_smx.controller.identity import Door
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_first_look_that_fails_as_nobody_foresaw_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)

    async def broken() -> None:
        raise KeyError("lab.small")

    monkeypatch.setattr(world.service.reconciler, "start", broken)
    async with world.agent:
        running = asyncio.create_task(world.service.run(Door(world.socket), world.stop))
        try:
            await eventually(lambda: world.socket.exists() or running.done(), "it serves")
            assert not running.done()
            assert (await world.ask("GET", "/v1/jobs")).status == 200
        finally:
            world.stop.set()
            await asyncio.gather(running, return_exceptions=True)
    assert "A first look at everything failed" in caplog.text
    assert "lab.small" in caplog.text

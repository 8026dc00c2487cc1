"""A log whose copy is on a network file system: the loop does not wait for it, and no byte is lost or misplaced."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest
from pulling import CONTENT, JOB, came, pulling

from jupyter_smx.controller.telemetry import log_copy
from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.testing.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "algo-1"


class SlowDisk:
    """Answers calls of one name when the test lets it; ``calls`` are the names of all that wait or were answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slow = ""
        self.answers = threading.Event()
        self.calls: list[str] = []
        for name in ("open", "pwrite", "close"):
            monkeypatch.setattr(log_copy.os, name, self._slowly(name))

    def _slowly(self, name: str) -> object:
        call = getattr(os, name)

        def wait_and_call(*arguments: object, **options: object) -> object:
            if threading.current_thread().name.startswith("log-disk"):
                self.calls.append(name)
                assert name != self.slow or self.answers.wait(20)
            return call(*arguments, **options)

        return wait_and_call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    made = SlowDisk(monkeypatch)
    yield made
    made.answers.set()


async def test_the_loop_does_not_wait_for_the_disk(tmp_path: Path, disk: SlowDisk) -> None:
    disk.slow = "open"
    async with pulling(tmp_path, is_network=True) as (_, agents, pump):
        pump.on_growth(JOB, HOST, len(CONTENT))
        await eventually(lambda: disk.calls == ["open"], "a thread waits for the disk, and the loop goes on")
        assert pump.size(JOB.id, HOST) == 0
        disk.answers.set()
        await pump.drain(JOB, HOST, len(CONTENT), agents.stream("c1", HOST))
    assert came(tmp_path) == CONTENT


async def test_a_controller_goes_on_where_the_one_before_stopped(tmp_path: Path) -> None:
    log = tmp_path / "jobs" / JOB.id / "logs" / f"{HOST}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(CONTENT[:100])
    async with pulling(tmp_path, is_network=True) as (agent, agents, pump):
        await pump.drain(JOB, HOST, len(CONTENT), agents.stream("c1", HOST))
        asked = await agent.heard("read")
    assert [frame["offset"] for frame in asked] == [100]
    assert came(tmp_path) == CONTENT


async def test_a_pull_that_is_given_up_writes_its_piece_before_the_file_is_closed(
    tmp_path: Path, disk: SlowDisk
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "log").write_bytes(CONTENT)
    disk.slow = "pwrite"
    async with pulling(tmp_path, is_network=True) as (_, _, pump):
        pump.on_growth(JOB, HOST, len(CONTENT) // 2)
        await eventually(lambda: disk.calls == ["open", "pwrite"], "the first puller waits for the disk")
        [first] = pump._pull_tasks.values()
        # The host is gone, so its folder is read: the puller that asks the agent is cancelled.
        drained = asyncio.create_task(pump.drain(JOB, HOST, len(CONTENT), None, HostSpool(spool)))
        await eventually(first.cancelled, "it was given up")
        disk.answers.set()
        await asyncio.wait_for(drained, 20)
    await eventually(lambda: disk.calls.count("close") == 2, "both files are closed")
    assert came(tmp_path) == CONTENT
    assert disk.calls[:3] == ["open", "pwrite", "close"]


async def test_a_copy_on_a_local_disk_costs_no_thread(tmp_path: Path, disk: SlowDisk) -> None:
    async with pulling(tmp_path) as (_, agents, pump):
        await pump.drain(JOB, HOST, len(CONTENT), agents.stream("c1", HOST))
    assert (came(tmp_path), disk.calls) == (CONTENT, [])

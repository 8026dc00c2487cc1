"""A file lock in an event loop: one holder at a time, and no other task blocks meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.machine import file_lock

if TYPE_CHECKING:
    from pathlib import Path


async def test_coroutines_hold_the_lock_one_after_the_other(tmp_path: Path) -> None:
    inside: list[str] = []

    async def hold(name: str) -> None:
        async with file_lock.acquire_async(tmp_path / "lock") as is_held:
            assert is_held
            inside.append(f"{name} begins")
            await asyncio.sleep(0)
            inside.append(f"{name} ends")

    await asyncio.wait_for(asyncio.gather(hold("a"), hold("b"), hold("c")), 10)
    assert [line.partition(" ")[2] for line in inside] == ["begins", "ends"] * 3


async def test_a_lock_that_a_thread_holds_is_awaited(tmp_path: Path) -> None:
    with file_lock.acquire(tmp_path / "lock", bool):
        async with file_lock.acquire_async(tmp_path / "lock", lambda: True) as is_held:
            assert not is_held
        waiter = asyncio.create_task(_take(tmp_path / "lock"))
        await asyncio.sleep(0)
        assert not waiter.done()
    assert await asyncio.wait_for(waiter, 10)


async def test_a_coroutine_that_is_cancelled_while_it_waits_holds_nothing(tmp_path: Path) -> None:
    with file_lock.acquire(tmp_path / "lock", bool):
        waiter = asyncio.create_task(_take(tmp_path / "lock"))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    with file_lock.acquire(tmp_path / "lock", lambda: True) as is_held:
        assert is_held


async def _take(path: Path) -> bool:
    async with file_lock.acquire_async(path) as is_held:
        return is_held

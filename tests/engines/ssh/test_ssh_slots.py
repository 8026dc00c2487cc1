from __future__ import annotations

import asyncio

import pytest

from jupyter_smx.engines.ssh.slots import SessionSlots
from jupyter_smx.testing.eventually import eventually


async def waiting(slots: SessionSlots) -> asyncio.Task[None]:
    task = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)  # it gets in line
    return task


async def test_slots_are_given_in_turn() -> None:
    slots = SessionSlots(2)
    await slots.acquire()
    await slots.acquire()
    first, second = await waiting(slots), await waiting(slots)
    slots.release()
    await first
    late = await waiting(slots)
    slots.release()
    await second
    assert not late.done()
    slots.release()
    await late
    assert slots.in_use == 2


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_caller_that_is_cancelled_takes_no_slot(is_granted: bool) -> None:
    slots = SessionSlots(1)
    await slots.acquire()
    cancelled, next_one = await waiting(slots), await waiting(slots)
    if is_granted:
        slots.release()  # its turn has come, and it has not run yet
    cancelled.cancel()
    if not is_granted:
        slots.release()
    await next_one
    assert cancelled.cancelled()
    assert slots.in_use == 1


async def test_a_refusal_lowers_the_limit_to_the_sessions_that_run_and_one_more_is_tried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jupyter_smx.engines.ssh.slots._RAISE_INTERVAL", 0.01)
    slots = SessionSlots(4)
    for _ in range(3):
        await slots.acquire()
    slots.lower()  # the third one was refused
    assert slots.limit == 2
    slots.release()
    late = await waiting(slots)
    assert not late.done()
    await late  # nothing was released: the limit rose
    assert (slots.limit, slots.in_use) == (3, 3)
    await eventually(lambda: slots.limit == 4)


async def test_the_limit_is_never_below_one_and_is_forgotten_with_the_connection() -> None:
    slots = SessionSlots(8)
    await slots.acquire()
    slots.lower()
    assert slots.limit == 1
    late = await waiting(slots)
    slots.reset()
    await late
    assert slots.limit == 8


@pytest.mark.parametrize(("limit", "streams"), [(8, 5), (5, 2), (3, 1), (2, 1), (1, 0)])
def test_streams_leave_sessions_for_commands(limit: int, streams: int) -> None:
    assert SessionSlots(limit).stream_limit() == streams

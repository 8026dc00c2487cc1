"""Slurm is asked once for all, and never twice at once."""

from __future__ import annotations

import asyncio

from jupyter_smx.engines.slurm.queue_watch import QueueWatch

ROW = "12|smx-a-b|RUNNING|1|2|n1|main|None\n"


class Queue:
    """Answers each question when the test lets it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.gates: list[asyncio.Future[str]] = []

    async def ask(self) -> str:
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        return await gate

    def answer(self, text: str = ROW) -> None:
        self.gates[-1].set_result(text)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_callers_that_came_before_a_question_share_its_answer() -> None:
    queue = Queue()
    watch = QueueWatch(queue.ask, lambda: queue.now)
    tasks = [asyncio.create_task(watch.look(oldest=5.0)) for _ in range(100)]
    await turns()
    queue.answer()
    found = await asyncio.gather(*tasks)
    assert watch.questions == 1
    assert all("smx-a-b" in each for each in found)


async def test_an_answer_is_used_as_long_as_the_caller_allows() -> None:
    queue = Queue()
    watch = QueueWatch(queue.ask, lambda: queue.now)
    first = asyncio.create_task(watch.look())
    await turns()
    queue.answer()
    await first
    queue.now += 4.0
    assert await watch.look(oldest=5.0) == await first
    second = asyncio.create_task(watch.look(oldest=3.0))
    await turns()
    queue.answer("")
    assert await second == {}
    assert watch.questions == 2


async def test_who_comes_during_a_question_gets_one_that_began_later() -> None:
    queue = Queue()
    watch = QueueWatch(queue.ask, lambda: queue.now)
    early = asyncio.create_task(watch.look())
    await turns()
    queue.now += 1.0
    late = asyncio.create_task(watch.look())
    await turns()
    assert len(queue.gates) == 1
    queue.answer("")
    await early
    await turns()
    queue.answer()
    assert "smx-a-b" in await late

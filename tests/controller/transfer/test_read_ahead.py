"""Files come home over a long way in far less time than a round trip for each piece, and whole."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from fake_agent import Doors, FakeAgent
from hypothesis import given
from hypothesis import strategies as st
from records import a_job, a_spec

from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.telemetry.log_collector import LogCollector
from jupyter_smx.controller.transfer.job_folder import StagingError
from jupyter_smx.controller.transfer.read_ahead import WINDOW, read_ahead, run_side_by_side
from jupyter_smx.controller.transfer.stage_out import PIECE, HostOutputs, OutputStager
from jupyter_smx.testing.delay_relay import DelayRelay
from jupyter_smx.testing.simulation.simulated_time import SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from jupyter_smx.controller.agents.stream import AgentStream
    from jupyter_smx.model.records.cluster import Handle

ROUND_TRIP = 0.04
LARGE = 50_000_000
JOB = a_job(cluster="c1", lease=1, spec=a_spec())


class RemoteDoors(Doors):
    """Agents to which each way takes half of a round trip."""

    def __init__(self, agent: FakeAgent, relay: DelayRelay) -> None:
        super().__init__(agent)
        self._relay = relay

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connect = super().connect
        return await self._relay.open(lambda: connect(handle, host), f"{self._agents[host].path}.relay")


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    """Give a loop whose clock counts delays and nothing else, however slow this machine is."""
    loop = SimulatedLoop()
    yield loop
    loop.close()


@asynccontextmanager
async def remote(folder: Path) -> AsyncIterator[tuple[FakeAgent, Agents]]:
    agents = Agents(lambda *_: None, lambda *_: None)
    async with FakeAgent(folder / "a") as agent, DelayRelay(ROUND_TRIP) as relay:
        doors = RemoteDoors(agent, relay)
        await agents.open(doors, doors.handle(), 1)  # type: ignore[arg-type]
        yield agent, agents
        await agents.close_all()


def outputs(agent: FakeAgent, stream: AgentStream, contents: dict[str, bytes]) -> HostOutputs:
    for name, content in contents.items():
        agent.files[(JOB.id, f"artifacts/{name}")] = content
    rows = [{"name": name, "size": len(content)} for name, content in contents.items()]
    return HostOutputs("algo-1", {"artifacts": rows}, stream=stream)


def elapsed(loop: SimulatedLoop, work: Coroutine[Any, Any, None]) -> float:
    before = loop.now
    loop.run_until_complete(work)
    return loop.now - before


def test_a_large_output_comes_home_in_a_quarter_of_the_round_trips(loop: SimulatedLoop, tmp_path: Path) -> None:
    content = os.urandom(LARGE)

    async def bring_home() -> None:
        async with remote(tmp_path) as (agent, agents):
            source = outputs(agent, agents.stream("c1", "algo-1"), {"model.tar.gz": content})
            await OutputStager(tmp_path / "jobs").stage_out(JOB, [source])

    seconds = elapsed(loop, bring_home())
    assert seconds < LARGE / PIECE * ROUND_TRIP / 4
    assert (tmp_path / "jobs" / JOB.id / "artifacts/model.tar.gz").read_bytes() == content


def test_many_small_outputs_share_round_trips(loop: SimulatedLoop, tmp_path: Path) -> None:
    contents = {f"outputs/table/{number}": bytes([number]) * number for number in range(100)}

    async def bring_home() -> None:
        async with remote(tmp_path) as (agent, agents):
            source = outputs(agent, agents.stream("c1", "algo-1"), contents)
            await OutputStager(tmp_path / "jobs").stage_out(JOB, [source])

    assert elapsed(loop, bring_home()) < len(contents) * ROUND_TRIP / 4
    home = tmp_path / "jobs" / JOB.id / "artifacts"
    assert {name: (home / name).read_bytes() for name in contents} == contents


def test_a_long_log_comes_home_in_a_quarter_of_the_round_trips(loop: SimulatedLoop, tmp_path: Path) -> None:
    content = os.urandom(LARGE)

    async def pull() -> None:
        async with remote(tmp_path) as (agent, agents):
            agent.files[(JOB.id, "log")] = content
            collector = LogCollector(tmp_path / "jobs", agents, lambda _job: None)
            await collector.drain(JOB, "algo-1", len(content), agents.stream("c1", "algo-1"))

    assert elapsed(loop, pull()) < LARGE / PIECE * ROUND_TRIP / 4
    assert (tmp_path / "jobs" / JOB.id / "logs/algo-1.log").read_bytes() == content


async def test_an_output_that_grew_after_its_record_was_written_is_lost(tmp_path: Path) -> None:
    async with remote(tmp_path) as (agent, agents):
        source = outputs(agent, agents.stream("c1", "algo-1"), {"a": b"1234"})
        agent.files[(JOB.id, "artifacts/a")] = b"12345"
        with pytest.raises(StagingError, match="grew from 4 to 5 bytes"):
            await OutputStager(tmp_path / "jobs").stage_out(JOB, [source])


class Source:
    """Gives pieces of a content, some shorter than they could be, and counts how many are asked for at once."""

    def __init__(self, content: bytes, sizes: list[int]) -> None:
        self.content = content
        self.sizes = iter(sizes)
        self.running = self.most = 0

    async def read(self, offset: int) -> bytes:
        self.running += 1
        self.most = max(self.most, self.running)
        size = next(self.sizes, 10)
        await asyncio.sleep(0)
        self.running -= 1
        return self.content[offset : offset + size]


async def collect(source: Source, start: int, end: Callable[[], int], window: int) -> bytes:
    async with aclosing(read_ahead(source.read, start, end, piece=10, window=window)) as pieces:
        return b"".join([piece async for piece in pieces])


@given(
    content=st.binary(max_size=300),
    start=st.integers(0, 300),
    sizes=st.lists(st.integers(1, 10), max_size=30),
    window=st.integers(1, 9),
)
def test_whatever_the_sizes_of_pieces_the_bytes_are_whole_and_in_order(
    content: bytes, start: int, sizes: list[int], window: int
) -> None:
    source = Source(content, sizes)
    assert asyncio.run(collect(source, start, lambda: len(content), window)) == content[start:]
    assert source.most <= window


@given(grown=st.lists(st.integers(0, 60), min_size=1, max_size=20), window=st.integers(1, 9))
def test_a_log_that_grows_meanwhile_is_read_to_its_new_end(grown: list[int], window: int) -> None:
    sizes = [sum(grown[: count + 1]) for count in range(len(grown))]
    source = Source(os.urandom(sizes[-1]), [])
    ends = iter(sizes)
    assert asyncio.run(collect(source, 0, lambda: next(ends, sizes[-1]), window)) == source.content


async def test_what_ends_early_gives_what_there_is(tmp_path: Path) -> None:
    del tmp_path
    assert await collect(Source(b"x" * 25, []), 0, lambda: 300, WINDOW) == b"x" * 25


async def test_after_an_error_nothing_is_asked_for_any_more() -> None:
    begun: list[int] = []

    async def read(offset: int) -> bytes:
        begun.append(offset)
        await asyncio.sleep(0)
        if offset == 20:
            raise OSError("gone")
        return b"0123456789"

    async with aclosing(read_ahead(read, 0, lambda: 10_000, piece=10, window=4)) as pieces:
        assert await anext(pieces) == b"0123456789"
        assert await anext(pieces) == b"0123456789"
        with pytest.raises(OSError, match="gone"):
            await anext(pieces)
    assert max(begun) <= 50
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_work_side_by_side_is_bounded_and_ends_at_the_first_error() -> None:
    running = most = done = 0

    async def work(number: int) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if number == 10:
            raise ValueError(number)
        done += 1

    with pytest.raises(ValueError, match="10"):
        await run_side_by_side([lambda number=number: work(number) for number in range(100)], 4)  # type: ignore[misc]
    assert most == 4
    assert done < 20

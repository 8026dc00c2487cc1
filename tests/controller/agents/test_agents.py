from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from fake_agent import Doors, FakeAgent
from records import a_job

from jupyter_smx.agent.wire import Decoder
from jupyter_smx.controller.agents.connections import Agents
from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.telemetry.log_collector import PIECE, LogCollector
from jupyter_smx.controller.transfer.host_spool import HostSpool
from jupyter_smx.model.errors import (
    ResourceInUseError,
    SmxError,
    UnavailableError,
    ValidationError,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


class World:
    """Two agents, the streams to them, and what was told."""

    def __init__(self, folder: Path) -> None:
        self.one = FakeAgent(folder / "1.sock", "algo-1")
        self.two = FakeAgent(folder / "2.sock", "algo-2")
        self.doors = Doors(self.one, self.two)
        self.events: asyncio.Queue[tuple[str, str, Mapping[str, Any]]] = asyncio.Queue()
        self.closed: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self.agents = self.streams()

    def streams(self, **fields: Any) -> Agents:
        return Agents(lambda *said: self.events.put_nowait(said), lambda *said: self.closed.put_nowait(said), **fields)

    async def open(self, epoch: int = 1, agents: Agents | None = None) -> dict[str, dict[str, Any]]:
        return await (agents or self.agents).open(self.doors, self.doors.handle(), epoch)

    async def event(self) -> tuple[str, str, Mapping[str, Any]]:
        return await asyncio.wait_for(self.events.get(), 10)

    async def close(self) -> tuple[str, str, str]:
        return await asyncio.wait_for(self.closed.get(), 10)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    async with world.one, world.two:
        yield world
        await world.agents.close_all()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cluster_is_open_when_every_host_was_greeted(world: World) -> None:
    assert not world.agents.is_open("c1")
    greetings = await world.open(epoch=7)
    assert {host: said["host"] for host, said in greetings.items()} == {"algo-1": "algo-1", "algo-2": "algo-2"}
    assert world.one.epoch == world.two.epoch == 7
    assert world.agents.is_open("c1")
    assert not world.agents.is_open("c2")


async def test_greeting_again_uses_the_streams_that_are_open(world: World) -> None:
    await world.open()
    await world.one.hang_up()
    assert (await world.close())[:2] == ("c1", "algo-1")
    assert not world.agents.is_open("c1")
    await world.open()
    assert world.agents.is_open("c1")
    assert world.one.connections() == world.two.connections() == 1
    assert len(await world.two.heard("hello", 2)) == 2


async def test_one_host_that_is_away_leaves_no_stream_open(world: World) -> None:
    world.two.path.unlink()
    with pytest.raises(UnavailableError, match="algo-2"):
        await world.open()
    assert not world.agents.is_open("c1")
    with pytest.raises(UnavailableError):
        world.agents.stream("c1", "algo-1")


async def test_an_agent_of_another_protocol_is_refused(world: World) -> None:
    world.one.protocol = 99
    with pytest.raises(VersionMismatchError, match="protocol version 99"):
        await world.open()


async def test_an_agent_of_a_newer_controller_fences_this_one(world: World) -> None:
    world.one.refusals["hello"] = "Fenced"
    with pytest.raises(FencedError):
        await world.open()


async def test_a_request_is_in_the_socket_before_the_call_returns(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=here)

    class Pair:
        async def connect(self, *_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return reader, writer

    agent = FakeAgent(tmp_path / "unused.sock")
    agents = Agents(lambda *_: None, lambda *_: None)
    opening = asyncio.create_task(agents.open(Pair(), Doors(agent).handle(), 1))
    loop = asyncio.get_running_loop()
    there.setblocking(False)
    (hello,) = Decoder().feed(await loop.sock_recv(there, 65_536))
    there.send(agent._answer(hello.header))
    await opening
    agents.stream("c1", "algo-1").send_now("run", job="j", lease=1, spec={"source": "x = 1"})
    # No await since: these bytes did not wait for the event loop.
    (frame,) = Decoder().feed(there.recv(65_536))
    assert frame.header["op"] == "run"
    assert frame.header["spec"] == {"source": "x = 1"}
    await agents.close_all()
    there.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [("Busy", ResourceInUseError), ("Fenced", FencedError), ("Protocol", VersionMismatchError), ("Odd", SmxError)],
)
async def test_a_refusal_keeps_its_kind_and_its_words(world: World, code: str, kind: type[SmxError]) -> None:
    world.one.refusals["run"] = code
    await world.open()
    with pytest.raises(kind, match=r"algo-1 refused 'run': Because\."):
        await world.agents.stream("c1", "algo-1").request("run", job="j", lease=1)


async def test_a_request_too_large_for_a_frame_is_refused_here(world: World) -> None:
    await world.open()
    with pytest.raises(ValidationError, match="exceed the limit"):
        await world.agents.stream("c1", "algo-1").request("run", job="j", lease=1, spec="x" * 17_000_000)


class TestLateAnswers:
    """Number 1 of the catalogue: a late answer of job N is never delivered as one of N+1."""

    async def test_a_late_answer_is_dropped_and_the_next_job_gets_its_own(self, world: World) -> None:
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        world.one.held = {"read"}
        world.one.files = {("n", "log"): b"of N", ("n+1", "log"): b"of N+1"}
        with pytest.raises(UnavailableError, match="did not answer 'read'"):
            await stream.request("read", timeout=0.01, job="n", lease=1, name="log", offset=0, limit=10)
        answer = stream.send_now("read", job="n+1", lease=2, name="log", offset=0, limit=10)
        await world.one.heard("read", 2)
        world.one.let_go()
        assert (await answer).body == b"of N+1"
        assert stream.dropped_frames == 1

    async def test_answers_in_any_order_find_their_questions(self, world: World) -> None:
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        world.one.held = {"read"}
        world.one.files = {(str(n), "log"): f"of {n}".encode() for n in range(200)}
        answers = [stream.send_now("read", job=str(n), lease=n, name="log", offset=0, limit=10) for n in range(200)]
        await world.one.heard("read", 200)
        world.one.let_go(backwards=True)
        assert [frame.body for frame in await asyncio.gather(*answers)] == [f"of {n}".encode() for n in range(200)]
        assert stream.dropped_frames == 0

    async def test_an_answer_that_names_another_job_is_dropped(self, world: World) -> None:
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        world.one.silent = True
        answer = stream.send_now("stop", job="n", lease=2, grace=1)
        (asked,) = await world.one.heard("stop")
        for wrong in ({"job": "other", "lease": 2}, {"job": "n", "lease": 1}):
            world.one.say({"re": asked["id"], "ok": True} | wrong)
        world.one.say({"re": asked["id"], "ok": True, "phase": "running", "job": "n", "lease": 2})
        assert (await answer).header["phase"] == "running"
        assert stream.dropped_frames == 2

    async def test_events_of_a_lease_that_was_never_given_are_dropped(self, world: World) -> None:
        world.one.jobs = {"known": {"phase": "running", "lease": 4, "log": 0}}
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        await stream.request("run", job="mine", lease=5)
        for job, lease in (("mine", 4), ("other", 5), ("known", 5)):
            world.one.say({"event": "ended", "job": job, "lease": lease, "record": {}})
        world.one.say({"event": "grew", "job": "known", "lease": 4, "total": 1})
        world.one.say({"event": "grew", "job": "mine", "lease": 5, "total": 2})
        assert [(await world.event())[2]["total"] for _ in range(2)] == [1, 2]
        assert stream.dropped_frames == world.agents.dropped_frames() == 3

    async def test_a_forgotten_job_is_never_heard_of_again(self, world: World) -> None:
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        await stream.request("run", job="mine", lease=5)
        await stream.request("forget", job="mine", lease=5)
        world.one.say({"event": "grew", "job": "mine", "lease": 5, "total": 2})
        world.one.say({"event": "preload", "loaded": []})
        assert (await world.event())[2]["event"] == "preload"


async def test_an_event_that_we_cannot_take_does_not_deafen_us(world: World, caplog: pytest.LogCaptureFixture) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    def stumble(_cluster: str, _host: str, header: Mapping[str, Any]) -> None:
        heard.put_nowait(header["event"])
        raise RuntimeError("ours")

    agents = Agents(stumble, lambda *_: None)
    await agents.open(world.doors, world.doors.handle(), 1)
    world.one.say({"event": "one"})
    world.one.say({"event": "two"})
    assert [await asyncio.wait_for(heard.get(), 10) for _ in range(2)] == ["one", "two"]
    assert caplog.text.count("RuntimeError: ours") == 2
    await agents.close_all()


@pytest.mark.parametrize("size", [0, 3, 4, 20])
async def test_an_agent_that_dies_in_the_middle_of_a_frame_fails_what_was_asked(world: World, size: int) -> None:
    await world.open()
    stream = world.agents.stream("c1", "algo-1")
    world.one.cut = size
    with pytest.raises(UnavailableError, match="closed the stream"):
        await stream.request("stop", job="j", lease=1)
    assert (await world.close())[:2] == ("c1", "algo-1")
    assert not world.agents.is_open("c1")
    assert world.agents.is_open("c1") is stream.is_open() is False
    with pytest.raises(UnavailableError):
        await stream.request("ping")


async def test_half_a_frame_and_then_nothing_is_a_time_out_and_then_a_closed_stream(world: World) -> None:
    agents = world.streams(ping_every=0.03, misses=3)
    await world.open(agents=agents)
    world.one.cut, world.one.stall = 9, True
    with pytest.raises(UnavailableError):
        await agents.stream("c1", "algo-1").request("stop", timeout=5, job="j", lease=1)
    cluster, host, reason = await world.close()
    assert (cluster, host) == ("c1", "algo-1")
    assert "sent nothing" in reason
    assert agents.stream("c1", "algo-2").is_open()
    await agents.close_all()


async def test_an_agent_that_answers_pings_stays_connected(world: World) -> None:
    agents = world.streams(ping_every=0.02, misses=3)
    await world.open(agents=agents)
    await world.one.heard("ping", 10)
    assert agents.is_open("c1")
    assert world.closed.empty()
    await agents.close_all()


async def test_a_ping_of_the_agent_is_answered(world: World) -> None:
    await world.open()
    world.one.say({"op": "ping", "id": 77})
    while {"re": 77, "ok": True} not in world.one.seen:
        world.one.news.clear()
        await asyncio.wait_for(world.one.news.wait(), 10)


async def test_a_controller_that_slept_hears_before_it_judges(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    agents = world.streams(ping_every=0.05, misses=3)
    await world.open(agents=agents)
    now = loop.time
    # The clock jumps as it does for a process that was stopped for an hour.
    monkeypatch.setattr(loop, "time", lambda: now() + 3600)
    pings = len([frame for frame in world.one.seen if frame.get("op") == "ping"])
    await world.one.heard("ping", pings + 5)
    assert agents.is_open("c1")
    await agents.close_all()


async def test_bytes_that_are_no_frame_close_the_stream(world: World) -> None:
    await world.open()
    for writer in world.one._writers:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert "invalid frame" in (await world.close())[2]


async def test_closing_here_is_not_told_as_a_loss(world: World) -> None:
    await world.open()
    answer = world.agents.stream("c1", "algo-1").send_now("ping")
    world.agents.close("c1")
    with pytest.raises(UnavailableError):
        await answer
    await world.agents.close_all()
    assert world.closed.empty()


class TestLogs:
    @pytest.fixture
    def told(self) -> asyncio.Queue[str]:
        return asyncio.Queue()

    @pytest.fixture
    def pump(self, world: World, tmp_path: Path, told: asyncio.Queue[str]) -> LogCollector:
        return LogCollector(tmp_path / "jobs", world.agents, told.put_nowait)

    async def test_a_log_is_pulled_in_pieces_from_where_the_file_ends(
        self, world: World, pump: LogCollector, tmp_path: Path, told: asyncio.Queue[str]
    ) -> None:
        job = a_job(cluster="c1", lease=1)
        content = bytes(range(256)) * 2500
        world.one.files[(job.id, "log")] = content
        log = tmp_path / "jobs" / job.id / "logs" / "algo-1.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(content[:100])
        await world.open()
        pump.on_growth(job, "algo-1", 1000)
        pump.on_growth(job, "algo-1", len(content))
        await pump.drain(job, "algo-1", len(content), world.agents.stream("c1", "algo-1"))
        assert log.read_bytes() == content
        assert told.get_nowait() == job.id
        asked = await world.one.heard("read")
        assert asked[0]["offset"] == 100
        assert max(frame["limit"] for frame in asked) == PIECE
        assert [frame["offset"] for frame in asked] == sorted({frame["offset"] for frame in asked})

    async def test_a_stream_that_breaks_is_read_on_by_the_next_one(
        self, world: World, pump: LogCollector, tmp_path: Path
    ) -> None:
        job = a_job(cluster="c1", lease=1)
        content = b"line\n" * 200_000
        world.one.files[(job.id, "log")] = content
        await world.open()
        world.one.held = {"read"}
        pump.on_growth(job, "algo-1", len(content))
        await world.one.heard("read")
        world.one.let_go()
        await world.one.heard("read", 2)
        await world.one.hang_up()
        await world.close()
        world.one.held = set()
        await world.open()
        await pump.drain(job, "algo-1", len(content), world.agents.stream("c1", "algo-1"))
        assert (tmp_path / "jobs" / job.id / "logs" / "algo-1.log").read_bytes() == content

    async def test_what_a_dead_host_left_on_disk_completes_the_log(
        self, world: World, pump: LogCollector, tmp_path: Path
    ) -> None:
        job = a_job(cluster="c1", lease=1)
        spool = tmp_path / "spool"
        spool.mkdir()
        (spool / "log").write_bytes(b"x" * 700_000)
        await world.open()
        world.one.silent = True
        pump.on_growth(job, "algo-1", 500_000)
        await pump.drain(job, "algo-1", 700_000, None, HostSpool(spool))
        assert pump.size(job.id, "algo-1") == 700_000

    async def test_a_host_that_left_nothing_gives_what_arrived(self, pump: LogCollector) -> None:
        await pump.drain(a_job(cluster="c1"), "algo-1", 100, None, None)
        assert pump.size(a_job().id, "algo-1") == 0

    async def test_an_agent_that_is_away_is_an_error_of_the_drain(self, world: World, pump: LogCollector) -> None:
        await world.open()
        stream = world.agents.stream("c1", "algo-1")
        world.agents.close("c1")
        with pytest.raises(UnavailableError):
            await pump.drain(a_job(cluster="c1", lease=1), "algo-1", 100, stream)

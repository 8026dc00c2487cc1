"""What an agent sends about a job in its last milliseconds reaches the controller in one packet, in order."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jupyter_smx.agent import controller_connection, wire
from jupyter_smx.agent.controller_connection import ControllerSession
from jupyter_smx.agent.system.forwarding.forwarded_port import ForwardedPorts
from jupyter_smx.agent.system.processes.event_loop import Timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Loop:
    """Runs no callback by itself; records the timers."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def later(self, _seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(call))
        return self.timers[-1]

    def pass_time(self) -> None:
        for call in [timer.call for timer in self.timers if timer.call is not None]:
            call()

    def watch(self, *_what: object) -> None:
        pass

    def unwatch(self, _fd: int) -> None:
        pass


class Told:
    """A connection, and the data that reached its other side."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.loop = Loop()
        front = SimpleNamespace(ports=ForwardedPorts(cast("Any", self.loop)))
        host: Any = SimpleNamespace(loop=self.loop, listeners=[], aws_front=front)
        door: Any = SimpleNamespace(host=host, streams=[])
        self.connection = ControllerSession(door, ours)
        door.streams.append(self.connection)

    def tell(self, *events: str) -> None:
        for event in events:
            self.connection.send_event({"event": event})

    def came(self) -> list[str]:
        try:
            data = self.theirs.recv(65_536)
        except BlockingIOError:
            return []
        return [frame.header["event"] for frame in wire.Decoder().feed(data)]


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.connection.close()
    made.theirs.close()


def test_what_can_wait_comes_with_what_cannot(told: Told) -> None:
    told.tell("grew", "exited", "sampled")
    assert told.came() == []
    told.tell("ended")
    assert told.came() == ["grew", "exited", "sampled", "ended"]
    told.loop.pass_time()
    assert told.came() == []


def test_it_comes_alone_where_nothing_follows(told: Told) -> None:
    told.tell("exited", "grew")
    told.loop.pass_time()
    assert told.came() == ["exited", "grew"]
    told.tell("grew")
    told.loop.pass_time()
    assert told.came() == ["grew"]


def test_what_a_user_waits_for_comes_at_once(told: Told) -> None:
    told.tell("first_line")
    assert told.came() == ["first_line"]


def test_what_waits_when_the_stream_closes_is_told_to_nobody(told: Told) -> None:
    told.tell("exited")
    told.connection.close()
    told.loop.pass_time()
    told.tell("ended")
    assert told.theirs.recv(1) == b""


def test_a_controller_that_never_reads_loses_its_stream_also_over_what_can_wait(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_connection, "_UNREAD_LIMIT", 100_000)
    for _ in range(10_000):
        told.tell("grew", "grew", "grew", "grew")
        told.loop.pass_time()
        told.loop.timers.clear()
        if told.connection._closed:
            break
    assert told.connection._closed

"""The moments of a job are by the controller's clock: its request says by how much the clock of the host is ahead."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.job.controller_clock import ControllerClock

if TYPE_CHECKING:
    from far_side import Agent

HOUR = 3_600.0
OUTLIVES_A_SAMPLE = "import signal\nsignal.sigtimedwait([], 0.3)"


class Machine:
    """A machine with a wall clock that can be set, and one that cannot."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.boot = 5_000.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.boot += seconds

    def clock(self, ahead: float) -> ControllerClock:
        return ControllerClock(ahead, lambda: self.wall, lambda: self.boot)


def run(agent: Agent, ahead: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a job for which this machine's clock is said to be ahead; gives its first line and its record."""
    request = {"job": "a1", "lease": 1, "spec": agent.spec(OUTLIVES_A_SAMPLE)}
    assert agent.client.ask("run", **request, clock_ahead=ahead)["ok"]
    first_line = agent.client.event("first_line", "a1")["at"]
    return first_line, agent.end_of("a1")


@pytest.mark.parametrize("ahead", [-HOUR, HOUR, 20.0])
def test_every_moment_of_a_job_is_of_the_controllers_clock(agent: Agent, ahead: float) -> None:
    before = time.time() - ahead
    first_line, record = run(agent, ahead)
    after = time.time() - ahead
    moments = [first_line[name] for name in ("received", "awake", "first_line")]
    moments += [record["at"][name] for name in ("exited", "ended")]
    assert before - 0.01 <= moments[0]
    assert moments == sorted(moments)
    assert moments[-1] <= after + 0.01
    assert {name: record["at"][name] for name in first_line} == first_line
    kept = json.loads((agent.folder / "spool" / "a1" / "end.json").read_text())
    assert kept["at"] == record["at"]


def test_every_sample_is_of_the_controllers_clock(agent: Agent) -> None:
    before = time.time() - HOUR
    run(agent, HOUR)
    rows = [json.loads(line) for line in agent.read("a1", "samples").splitlines() if line.startswith(b"[")]
    told = [event["now"]["at"] for event in agent.client.events if event["event"] == "sampled"]
    assert rows
    assert all(before - 0.01 <= at <= time.time() - HOUR + 0.01 for at in [row[0] for row in rows] + told)


def test_greetings_and_pings_tell_the_clock_of_the_host(agent: Agent) -> None:
    moments = [time.time(), agent.client.ask("hello", protocol=1, epoch=1)["now"], agent.client.ask("ping")["now"]]
    moments.append(time.time())
    assert moments == sorted(moments)


def test_a_clock_that_is_set_while_a_job_runs_moves_nothing() -> None:
    machine = Machine()
    clock = machine.clock(HOUR)
    machine.passes(5.0)
    machine.wall -= HOUR
    machine.passes(5.0)
    assert clock.now() == pytest.approx(1_800_000_000.0 - HOUR + 10.0)
    assert clock.translate(machine.wall - 2.0) == pytest.approx(clock.now() - 2.0)


def test_a_clock_that_is_the_controllers_own_is_followed_also_when_it_is_set() -> None:
    machine = Machine()
    clock = machine.clock(0.0)
    machine.wall += HOUR
    assert clock.now() == machine.wall
    assert clock.translate(5.0) == 5.0

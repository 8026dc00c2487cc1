"""The clock is set while a controller, hosts and a job run as processes: the job's duration stays correct."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from world import PATIENCE, World, kill

from jupyter_smx import controller_launch
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR = 3_600
MAX_RUN = 500
LONGEST = 60.0
"""Seconds that an attempt may take on a slow machine; much less than an hour."""

# Only this process has the other time: libfaketime, which could set it for all, now and then stops a process for ever.
CONTROLLER = """
import pathlib, runpy, sys, time
true_time, offset = time.time, pathlib.Path(sys.argv.pop(1))
time.time = lambda: true_time() + float(offset.read_text())
runpy.run_module("jupyter_smx.controller", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def set_clock(world: World) -> Iterator[Callable[[int], None]]:
    """Give ``set_clock(seconds)`` for the world's controller, whose steady clock goes on as it is."""
    offset = world.folder / "clock"

    def set_to(seconds: int) -> None:
        written = offset.with_suffix(".part")
        written.write_text(str(seconds))
        written.replace(offset)

    set_to(0)
    with subprocess.Popen([sys.executable, "-c", CONTROLLER, str(offset)]) as controller:
        eventually_blocking(controller_launch.is_listening, "the controller listens", within=PATIENCE)
        yield set_to
        world.close()
        assert controller.wait(PATIENCE) == 0


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["hour on", "hour back"])
def test_a_clock_that_is_set_between_two_attempts_uses_up_no_time(
    world: World, set_clock: Callable[[int], None], jump: int
) -> None:
    gate = world.gate()
    job = world.submit(gate=gate, retries=1, max_run=MAX_RUN)
    job.until_it_says("begun")
    set_clock(jump)
    kill(world.agent())
    eventually_blocking(lambda: job.runs() == 2, "its second attempt runs", within=LONGEST)
    gate.touch()
    ended = job.wait()
    assert ended.state is SecondaryStatus.COMPLETED, ended.failure_reason
    (over,) = ended.attempts
    assert 0 < over.seconds() < LONGEST
    assert ended.ran_seconds is not None
    assert 0 < ended.ran_seconds < LONGEST
    if jump > 0:
        assert over.started_at is not None
        assert over.ended_at - over.started_at > HOUR / 2, "the controller saw the other time"

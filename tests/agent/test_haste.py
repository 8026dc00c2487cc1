"""A stop, and what is kept of its job: what gets on is waited for, what stands still or has no end is cut short."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from far_side import SAVES_AT_ITS_END

from jupyter_smx.agent.jobs import haste
from jupyter_smx.agent.system import process
from jupyter_smx.agent.system.loop import Timer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

HASTY = """
import signal
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.channels.checkpoint import FolderStore
from jupyter_smx.agent.jobs import haste
haste.STILL, haste.LONGEST, haste._LOOK = {still}, {longest}, 0.02
{more}
main()
"""
HANGS = "FolderStore.put = lambda *_: signal.pause()"
CHECKPOINT = """
import os, sys
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("trained")
folder = os.environ["SM_MODEL_DIR"].replace("/model", "/checkpoints/")
"""
SPARSE = "import os\nwith open(os.environ['SM_MODEL_DIR'] + '/big', 'w') as file: file.truncate({size})"


@pytest.fixture
def hasty(start_agent: Callable[..., Agent]) -> Callable[..., Agent]:
    """Start an agent with little patience."""

    def start(still: float, longest: float, more: str = "") -> Agent:
        program = (sys.executable, "-c", HASTY.format(still=still, longest=longest, more=more))
        return start_agent(options={"program": program})

    return start


def cut(still: float, longest: float) -> str:
    return (
        f"it was cut short, for the job was told to end and nothing moved for {still:g} s, or all took over "
        f"{longest:g} s."
    )


def test_a_place_for_checkpoints_that_hangs_holds_up_no_stop_and_the_model_comes_home(
    hasty: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = hasty(1.5, 60, HANGS)
    job, lease = agent.start(CHECKPOINT + SAVES_AT_ITS_END, checkpoint=str(tmp_path / "kept"))
    agent.wait_for_log(job, "on")
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("stopped", 0)
    assert record["errors"] == [f"checkpoint: {cut(1.5, 60)}"]
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]
    agent.serves()


def test_an_output_whose_place_hangs_holds_up_no_stop_that_comes_when_the_code_is_over(
    hasty: Callable[..., Agent], tmp_path: Path
) -> None:
    agent = hasty(1.5, 60, HANGS)
    output = {"name": "r", "path": "/opt/ml/processing/output/r", "mode": "Continuous"}
    source = f"open({str(agent.folder / 'ml/processing/output/r/result')!r}, 'w').write('made')"
    job, lease = agent.start(source, kind="process", outputs=[output | {"destination": str(tmp_path / "kept")}])
    agent.client.event("exited", job)
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("exit", 0), "what its code did is as it was"
    assert record["errors"] == [f"output r: {cut(1.5, 60)}"]
    assert [one["name"] for one in record["artifacts"]] == ["outputs/r/result"]
    agent.serves()


def test_a_model_without_an_end_is_packed_until_a_stop_has_waited_for_it(hasty: Callable[..., Agent]) -> None:
    agent = hasty(60, 0.5)
    job, lease = agent.start(SPARSE.format(size=1 << 43))
    agent.client.event("exited", job)
    agent.stop(job, lease, grace=600.0)
    record = agent.end_of(job)
    assert (record["cause"], record["artifacts"]) == ("stopped", [])
    assert record["errors"] == [f"host: what the job made could not be kept: {cut(60, 0.5)}"]
    agent.serves()


def test_a_model_that_is_being_packed_comes_home_however_often_a_stop_is_asked_for(hasty: Callable[..., Agent]) -> None:
    agent = hasty(60, 60)
    job, lease = agent.start(SPARSE.format(size=1 << 27))
    agent.client.event("exited", job)
    for _ in range(3):
        agent.stop(job, lease, grace=0.0)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["errors"]) == ("exit", 0, [])
    assert [one["name"] for one in record["artifacts"]] == ["model.tar.gz"]


class Work:
    """An errand that moves as much as it is told to."""

    def __init__(self) -> None:
        self.bytes = 0
        self.why = ""

    def moved(self) -> int:
        return self.bytes

    def cut(self, why: str) -> None:
        self.why = why


class Clock:
    """A loop and a clock in one; ``pass_`` lets time go by."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.calls: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def later(self, _seconds: float, call: Callable[[], None]) -> Timer:
        self.calls.append(call)
        return Timer(call)

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.calls.pop()()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(haste, "time", clock)
    return clock


def test_what_gets_on_is_waited_for_longer_than_what_stands_still_and_each_errand_has_its_own_time(
    clock: Clock,
) -> None:
    at_work = [Work(), Work()]
    hurry = haste.Haste(clock, lambda: at_work[0])  # type: ignore[arg-type, return-value]
    hurry.begin("")
    assert clock.calls == [], "nobody wished for an end"
    hurry.begin("stopped")
    for _ in range(3):
        at_work[0].bytes += 1
        clock.pass_(haste.STILL * 0.9)
    at_work.pop(0)
    clock.pass_(haste.STILL * 0.9)
    clock.pass_(haste.STILL * 0.9)
    assert (at_work[0].why, hurry.cut_for) == ("", "")
    clock.pass_(haste.STILL * 0.2)
    assert (at_work[0].why, hurry.cut_for) == (cut(haste.STILL, haste.LONGEST)[:-1], "stopped")


def test_what_has_no_end_is_cut_although_it_gets_on(clock: Clock) -> None:
    work = Work()
    haste.Haste(clock, lambda: work).begin("stopped")  # type: ignore[arg-type, return-value]
    for _ in range(int(haste.LONGEST / haste.STILL) + 1):
        assert not work.why
        work.bytes += 1
        clock.pass_(haste.STILL * 0.99)
    clock.pass_(haste.STILL)
    assert work.why


@pytest.mark.skipif(not process.LINUX, reason="there is no /proc")
def test_what_a_process_moves_is_known_while_it_runs(tmp_path: Path) -> None:
    before = process.moved([os.getpid()])
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    assert process.moved([os.getpid()]) - before >= 1 << 20
    assert process.moved([0]) == 0

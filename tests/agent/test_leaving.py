"""A job whose code is done gives its memory back: its verdict waits for that no longer, and the next job does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from far_side import is_alive

if TYPE_CHECKING:
    from pathlib import Path

    from far_side import Agent

SLOW = """
import os, time
leave = os._exit
def slowly(code):
    while not os.path.exists(GATE):
        time.sleep(0.01)
    leave(code)
os._exit = slowly
print(os.getpid(), flush=True)
"""
"""Leaves when a file is there, as one does that has much memory."""

NEXT = "print('the next one')"


def slow(gate: Path, more: str = "") -> str:
    return SLOW.replace("GATE", repr(str(gate))) + more


@pytest.fixture
def gate(far_folder: Path) -> Path:
    """Give the path of a file that hosts with a world of their own see, too."""
    return far_folder / "gate"


def test_its_verdict_is_there_before_its_process_is_gone(isolated: Agent, gate: Path) -> None:
    job, _lease = isolated.start(slow(gate, "raise SystemExit(7)"))
    record = isolated.end_of(job)
    pid = int(isolated.log(job))
    assert (record["cause"], record["exit_code"], record["left_behind"], record["errors"]) == ("exit", 7, [], [])
    assert is_alive(pid)
    gate.touch()
    isolated.serves()


def test_the_next_job_begins_when_it_is_gone(isolated: Agent, gate: Path) -> None:
    first, _lease = isolated.start(slow(gate))
    isolated.end_of(first)
    pid = int(isolated.log(first))
    asked = isolated.client.send(
        "run", job="0123abcd", lease=9, spec=isolated.spec(f"import os\n{NEXT}\nos.kill({pid}, 0)")
    )
    assert isolated.client.ask("ping")["ok"], "the stream goes on meanwhile"
    assert not [one for one in isolated.client.events if one.get("job") == "0123abcd"]
    gate.touch()
    assert isolated.client.answer(asked).header["ok"]
    record = isolated.end_of("0123abcd")
    assert record["exit_code"] == 1, "the process of the first one was there no more"
    assert "ProcessLookupError" in record["failure"]


def test_one_that_is_forgotten_meanwhile_is_not_remembered(isolated: Agent, gate: Path) -> None:
    job, _lease = isolated.start(slow(gate))
    isolated.end_of(job)
    assert isolated.client.ask("forget", job=job)["ok"]
    gate.touch()
    isolated.serves()
    other = isolated.connect()
    assert job not in str(other.ask("hello", protocol=1, epoch=1))
    other.close()


def test_a_process_that_says_that_it_ends_and_does_not_is_killed(isolated: Agent, gate: Path) -> None:
    job, _lease = isolated.start(slow(gate))
    assert isolated.end_of(job)["exit_code"] == 0
    pid = int(isolated.log(job))
    isolated.serves()
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "more",
    [
        "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "import subprocess; subprocess.Popen(['sleep', '60'])",
        "os.system('sleep 60 & ')",
    ],
)
def test_where_something_of_it_may_still_happen_its_end_is_waited_for(isolated: Agent, gate: Path, more: str) -> None:
    job, _lease = isolated.start(slow(gate, more))
    isolated.wait_for_log(job, "\n")
    assert isolated.client.ask("ping")["ok"]
    pid = int(isolated.log(job))
    # Its report is its last word, so what it could have said has been said.
    while not (isolated.folder / "spool" / job / "report.json").exists():
        isolated.client.ask("ping")
    assert isolated.client.ask("ping")["ok"]
    assert not [one for one in isolated.client.events if one["event"] in ("exited", "ended")]
    gate.touch()
    assert isolated.end_of(job)["exit_code"] == 0
    assert not is_alive(pid)


def test_where_hosts_share_their_shared_memory_its_end_is_waited_for(agent: Agent, gate: Path) -> None:
    job, _lease = agent.start(slow(gate))
    while not (agent.folder / "spool" / job / "report.json").exists():
        agent.client.ask("ping")
    assert agent.client.ask("ping")["ok"]
    assert not [one for one in agent.client.events if one["event"] in ("exited", "ended")]
    gate.touch()
    assert agent.end_of(job)["exit_code"] == 0

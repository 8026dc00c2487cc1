"""How an agent ended that was not asked to: the reason that the local engine gives for a lost host."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.engines.local import agent_ends
from jupyter_smx.engines.local.agent_ends import AgentEnds, exit_reason, oom_kill_count

if TYPE_CHECKING:
    from jupyter_smx.engines.local.start import Children


@pytest.mark.parametrize(
    ("code", "oom_kills", "said"),
    [
        (0, 0, ""),
        (4, 1, ""),
        (-9, 0, "its agent was ended by signal 9 (SIGKILL), which another program, a person or the job sent."),
        (-9, 2, "the system killed its agent (signal 9, SIGKILL), probably for lack of memory."),
        (-11, 2, "its agent was ended by signal 11 (SIGSEGV)"),
        (-63, 0, "its agent was ended by signal 63 (unknown)"),
    ],
)
def test_the_end_of_an_agent_is_described(code: int, oom_kills: int, said: str) -> None:
    found = exit_reason(code, oom_kills)
    assert found.startswith(said) if said else found == ""


@pytest.mark.parametrize(("text", "count"), [("pgfault 7\noom_kill 3\nx 1\n", 3), ("pgfault 7\n", 0), ("", 0)])
def test_the_system_counts_what_it_killed(text: str, count: int) -> None:
    assert oom_kill_count(text) == count


def test_an_end_is_remembered_by_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([5, 5, 6])
    monkeypatch.setattr(agent_ends, "read_oom_kills", lambda: next(counts))
    children: Children = {}
    ends = AgentEnds(children)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    children[child.pid] = child
    assert ends.reason(child.pid) == ""
    child.send_signal(signal.SIGKILL)
    child.wait(60)
    assert "another program" in ends.reason(child.pid)
    assert children == {}
    assert "lack of memory" in ends.reason(child.pid)
    assert ends.reason(1) == ""
    assert child.stdin is not None
    child.stdin.close()


def test_an_agent_that_got_the_number_of_an_older_one_has_not_ended() -> None:
    children: Children = {}
    ends = AgentEnds(children)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as older:
        children[older.pid] = older
        older.kill()
        older.wait(60)
        assert "another program" in ends.reason(older.pid)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as newer:
            children[older.pid] = newer
            assert ends.reason(older.pid) == ""
            newer.kill()

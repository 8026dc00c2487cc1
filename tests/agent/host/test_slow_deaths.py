"""Processes that outlive their job although they were killed: the host waits as long as their number falls."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from far_side import FOREVER, Agent, is_alive
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.forkserver.handles import ChildHandle, ZygoteHandle
from jupyter_smx.agent.host import termination as stop_module
from jupyter_smx.agent.host.kill_wait import MAX_WAIT, PATIENCE, KillWait
from jupyter_smx.agent.host.termination import Termination
from jupyter_smx.agent.system.processes import forked_task as errand_module
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.agent.system.processes.forked_task import ForkedTask
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FREEZER = Path("/sys/fs/cgroup/freezer")
_GAPS = st.lists(st.floats(0, PATIENCE * 0.99), min_size=1, max_size=30)
LEAVE = """
import os, signal
pids = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        os.setsid()
        signal.pause()
    pids.append(pid)
print(*pids, flush=True)
gate = GATE
while not os.path.exists(gate):
    signal.sigtimedwait([], 0.005)
"""


@given(gaps=_GAPS, began=st.floats(0, 1e6))
def test_while_there_are_fewer_and_fewer_it_lasts_as_long_as_a_job_may_wait_for_its_end(
    gaps: list[float], began: float
) -> None:
    patience = KillWait()
    assert patience.can_wait(len(gaps) + 1, began)
    moments = list(accumulate(gaps, initial=began))[1:]
    lasted = [patience.can_wait(left, now) for left, now in zip(range(len(gaps), 0, -1), moments, strict=True)]
    assert lasted == [now < began + MAX_WAIT for now in moments]


@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=30), began=st.floats(0, 1e6))
def test_more_of_them_are_no_reason_to_wait_longer(counts: list[int], began: float) -> None:
    patience, fewest = KillWait(), 3
    assert patience.can_wait(fewest, began)
    pause = PATIENCE / len(counts)
    moments = (began + pause * number for number in range(1, len(counts) + 1))
    for more, now in zip(counts, moments, strict=True):
        patience.can_wait(fewest + more, now)
    assert not patience.can_wait(fewest, began + PATIENCE * 1.001)


@pytest.mark.parametrize(("step", "lasted"), [(0.01, MAX_WAIT), (0.0, PATIENCE)])
def test_one_that_gives_back_its_memory_is_waited_for_longer_than_one_that_does_nothing(
    monkeypatch: pytest.MonkeyPatch, step: float, lasted: float
) -> None:
    """The kernel needs more than ten seconds to free hundreds of GB; the process uses CPU time meanwhile."""
    now, given_up, calls = [0.0], [], []
    loop = SimpleNamespace(later=lambda _pause, call: calls.append(call))
    monkeypatch.setattr(stop_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(process, "signal_all", lambda *_: [7])
    monkeypatch.setattr(process, "cpu_seconds", lambda _pid: 1.0 + now[0] * step)
    stop = Termination(loop, list, lambda: given_up.append(now[0]))  # type: ignore[arg-type]
    stop.child = SimpleNamespace(pid=7, has_exited=False)  # type: ignore[assignment]
    stop.kill()
    while calls:
        now[0] += 1.0
        calls.pop()()
    assert given_up == [lasted]


class Ice:
    """A control group that freezes its processes; a frozen process does not react to any signal."""

    def __init__(self, group: Path) -> None:
        self._group = group

    def hold(self, pids: list[int]) -> None:
        for pid in pids:
            (self._group / "cgroup.procs").write_text(str(pid))
        self._say("FROZEN")

    def thaw(self) -> None:
        self._say("THAWED")

    def _say(self, word: str) -> None:
        (self._group / "freezer.state").write_text(word)
        eventually_blocking(lambda: (self._group / "freezer.state").read_text().strip() == word, word)


@pytest.fixture
def ice() -> Iterator[Ice]:
    group = _FREEZER / f"smx-test-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        (group / "freezer.state").write_text("THAWED")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"version 1 of control groups, which keeps processes from their end, cannot be used here: {error}")
    held = Ice(group)
    yield held
    held.thaw()
    eventually_blocking(lambda: not (group / "cgroup.procs").read_text(), "all of them are gone")
    group.rmdir()


def left_on_ice(agent: Agent, ice: Ice, gate: Path) -> tuple[str, list[int]]:
    """Run a job whose two processes outlive it; return its id and their process ids."""
    job, _lease = agent.start(LEAVE.replace("GATE", repr(str(gate))))
    pids = [int(word) for word in agent.wait_for_log(job, "\n").split()]
    ice.hold(pids)
    gate.touch()
    agent.client.event("exited", job)
    return job, pids


def test_a_host_waits_for_what_takes_long_to_die(agent: Agent, ice: Ice, tmp_path: Path) -> None:
    job, pids = left_on_ice(agent, ice, tmp_path / "gate")
    assert all(map(is_alive, pids))
    ice.thaw()
    record = agent.end_of(job)
    assert [" was still running and was killed." in text for text in record["left_behind"]] == [True, True]
    assert not any(map(is_alive, pids))
    agent.serves()


def test_a_host_with_a_process_that_cannot_be_killed_ends_and_says_so(
    agent: Agent, ice: Ice, tmp_path: Path, wait_until: Callable[..., object]
) -> None:
    job, pids = left_on_ice(agent, ice, tmp_path / "gate")
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("exit", 0), "the job's own code is none the worse"
    assert record["left_behind"][-1] in [f"process {pid} cannot be killed; this host ends." for pid in pids]
    assert record["at"]["ended"] - record["at"]["exited"] >= PATIENCE
    assert agent.client.event("spoilt")["reason"] == record["left_behind"][-1]
    assert agent.wait() == 4
    ice.thaw()
    wait_until(lambda: not any(map(is_alive, pids)), "they go as soon as they can")


def test_a_job_that_cannot_be_killed_is_stopped_all_the_same_and_its_host_ends_and_says_so(
    agent: Agent, ice: Ice, wait_until: Callable[..., object]
) -> None:
    """Like a process that waits for a disk: its stop, and its maximum run time, never ended."""
    job, lease = agent.start("import os\nprint(os.getpid(), flush=True)\n" + FOREVER)
    pid = int(agent.wait_for_log(job, "on").split()[0])
    ice.hold([pid])
    agent.stop(job, lease, grace=0.0)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["signal"]) == ("stopped", None, None)
    assert record["left_behind"] == [f"process {pid} cannot be killed; this host ends."]
    assert record["errors"] == ["host: the job's process cannot be ended."]
    assert agent.client.event("spoilt")["reason"] == record["left_behind"][-1]
    assert agent.wait() == 4
    ice.thaw()
    wait_until(lambda: not is_alive(pid), "it goes as soon as it can")


def test_a_stop_is_over_when_nobody_brings_inputs_any_more(agent: Agent, ice: Ice, tmp_path: Path) -> None:
    """Otherwise the next job meets these processes, and its record says that it left them."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(2**36)
    before = process.children(agent.process.pid)
    job, lease = agent.start(FOREVER, channels=[{"name": "train", "source": str(tmp_path / "big"), "mode": "File"}])
    [errand] = set(process.children(agent.process.pid)) - set(before)
    ice.hold([errand])
    agent.stop(job, lease)
    assert agent.client.ask("hello", protocol=1, epoch=1)["jobs"][job]["phase"] == "archiving"
    ice.thaw()
    assert agent.end_of(job)["cause"] == "stopped"
    assert not is_alive(errand)
    agent.serves()


def test_an_errand_that_cannot_be_killed_is_not_waited_for_for_ever(
    ice: Ice, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., object]
) -> None:
    monkeypatch.setattr(errand_module, "_PATIENCE", 0.02)
    loop = Loop()
    before = process.children(os.getpid())
    errand = ForkedTask(loop, lambda: {"never": signal.pause()}, lambda *_: pytest.fail("it was ended"))
    [pid] = set(process.children(os.getpid())) - set(before)
    ice.hold([pid])
    errand.cancel_and_wait(loop.stop)
    loop.run()
    assert is_alive(pid)
    ice.thaw()
    wait_until(lambda: not is_alive(pid), "it goes as soon as it can")
    loop.reap()


def test_a_job_that_is_never_born_is_waited_for_no_longer_than_one_that_never_dies() -> None:
    (ours, theirs), (control, other_end) = socket.socketpair(), socket.socketpair()
    loop = Loop()
    stop = Termination(loop, list, loop.stop)
    stop._patience = KillWait(0.02)
    stop.child = ChildHandle(1, "", ours, ZygoteHandle(1, control, []))
    stop.request(0.0, "stopped")
    loop.later(PATIENCE, lambda: pytest.fail("it is waited for still"))
    loop.run()
    assert not stop.child.pid
    for end in (ours, theirs, control, other_end):
        end.close()


FALLING = """
import os, signal
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.system.processes import process
is_alive = process.is_alive
def at_that_moment(pid):
    if process.comm(pid) == "falls":
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid): pass
    return is_alive(pid)
process.is_alive = at_that_moment
main()
"""
"""An agent that checks some processes at the very moment when they end."""
CHAIN = """
import os, signal
def be(name): open("/proc/self/comm", "w").write(name)
ours, theirs = os.pipe()
if not os.fork():
    os.setsid()
    be("falls")
    if os.fork() or os.fork():
        signal.pause()
    be("stays")
    os.write(theirs, b"x")
    os.closerange(0, 256)
    signal.pause()
os.read(ours, 1)
"""


def test_it_is_not_silent_while_who_ends_leaves_a_child_of_its_own(start_agent: Callable[..., Agent]) -> None:
    """The agent listed the processes before it checked them: a child of one that ended in between was missed."""
    agent = start_agent(options={"program": (sys.executable, "-c", FALLING)})
    agent.run(CHAIN)
    names = {process.comm(one.pid) for one in agent.processes()}
    assert names.isdisjoint({"falls", "stays"})
    agent.serves()


def test_of_hundreds_of_processes_some_are_named_and_the_others_counted(agent: Agent) -> None:
    """A host named 1,500 for 16 seconds, while they ran on and the host answered no request."""
    source = """
import os, signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
for _ in range(300):
    if not os.fork():
        os.setsid()
        signal.pause()
"""
    record = agent.run(source)
    *named, others = record["left_behind"]
    assert len(named) == 10
    assert all(f"which listened on port {record['text'].strip()}, was still running" in one for one in named)
    assert others == "290 more process(es) were still running and were killed."
    agent.serves()

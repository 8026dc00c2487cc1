from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import pytest

from jupyter_smx.agent import wire
from jupyter_smx.agent.forkserver import child_protocol
from jupyter_smx.agent.forkserver.handles import ChildHandle, ZygoteHandle
from jupyter_smx.agent.forkserver.pool import ForkServerPool
from jupyter_smx.agent.forkserver.spawn import SpawnedZygote
from jupyter_smx.agent.job.job import Job
from jupyter_smx.agent.system.processes.event_loop import READ, Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Family(NamedTuple):
    """A job with its zygote and the fork server of both; ``its_end`` is the job's end of its socket."""

    loop: Loop
    nursery: ForkServerPool
    job: ChildHandle
    its_end: socket.socket

    def is_process(self, process: subprocess.Popen[bytes]) -> None:
        """Make this process the job's process."""
        self.job.pid = process.pid
        self.nursery._watch_exit(self.job)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    (control, other_end), (ours, theirs) = socket.socketpair(), socket.socketpair()
    loop = Loop()
    nursery = ForkServerPool(loop, str(tmp_path), {"entry": "", "start_method": "fork"}, {})
    job = ChildHandle(1, str(tmp_path / "slot"), ours, ZygoteHandle(1, control, []))
    job.running, job.zygote.children[1] = True, job
    yield Family(loop, nursery, job, theirs)
    for end in (control, other_end, ours, theirs):
        end.close()


def test_what_a_child_said_before_its_end_is_heard_although_its_end_is_known_first(family: Family) -> None:
    heard: list[str] = []
    job, its_end = family.job, family.its_end
    job.on_message = lambda tag, _data: heard.append("first line" if tag == child_protocol.FIRST_LINE_TAG else "ending")
    job.on_exit = lambda _status, _reason: heard.append("exit")
    its_end.send(child_protocol.FIRST_LINE.pack(child_protocol.FIRST_LINE_TAG, 1.0, 2.0))
    its_end.send(child_protocol.CODE_EXIT.pack(child_protocol.CODE_EXIT_TAG, 0, 0.5))
    its_end.close()

    family.nursery._on_child_exit(job, 0, "")

    assert heard == ["first line", "ending", "exit"]


def test_a_job_that_told_its_end_is_over_when_it_is_gone_although_its_zygote_says_nothing(family: Family) -> None:
    """A zygote that forks the next child is busy; its later report of the exit is still accepted."""
    heard: list[tuple[int | None, float]] = []
    job, loop = family.job, family.loop
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    job.on_exit = lambda status, _reason: (heard.append((status, job.cpu)), loop.stop())
    family.is_process(process)
    family.its_end.send(child_protocol.CODE_EXIT.pack(child_protocol.CODE_EXIT_TAG, 3, 0.5))
    process.communicate(b"\n")

    loop.run()

    assert heard == [(3 << 8, 0.5)]
    assert job.zygote.children == {1: job}
    family.nursery._on_event(job.zygote, {"event": "exit", "serial": 1, "status": 0, "cpu": 0.25})
    assert (heard, job.zygote.children, job.cpu) == ([(3 << 8, 0.5)], {}, 0.5)


def test_what_a_job_did_not_tell_of_its_end_its_zygote_says(family: Family) -> None:
    heard: list[int | None] = []
    job, loop = family.job, family.loop
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"])
    job.on_exit = lambda status, _reason: heard.append(status)
    family.is_process(process)
    process.wait()
    family.its_end.close()
    loop.later(0.0, loop.stop)

    loop.run()

    assert heard == []
    family.nursery._on_event(job.zygote, {"event": "exit", "serial": 1, "status": 9})
    assert heard == [9]


def test_a_job_is_told_as_fast_as_it_reads(family: Family) -> None:
    words, heard = os.urandom(1 << 20), bytearray()

    def hear() -> None:
        heard.extend(family.its_end.recv(1 << 16))
        if len(heard) == len(words):
            family.loop.later(0.0, family.loop.stop)

    family.job.listen(family.loop, lambda: pytest.fail("it says nothing"))
    family.loop.watch(family.its_end.fileno(), READ, hear)
    family.job.send(family.loop, memoryview(words), lambda error: pytest.fail(str(error)))
    assert not heard
    family.loop.run()
    assert heard == words


class Words(bytearray):
    """The data that is sent to a job; a weak reference shows when it is released."""


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["at once", "bit by bit"])
def test_what_a_job_was_told_is_let_go(family: Family, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    watched: list[int] = []
    real = family.loop.watch

    def watch(fd: int, events: int, *calls: Callable[[], None]) -> None:
        watched.append(events)
        real(fd, events, *calls)

    family.job.listen(family.loop, lambda: pytest.fail("it says nothing"))
    monkeypatch.setattr(family.loop, "watch", watch)
    words = Words(size)
    left = weakref.ref(words)
    family.job.send(family.loop, memoryview(words), lambda error: pytest.fail(str(error)))
    del words
    if size == 1:
        assert (watched, left()) == ([], None)
        return

    def hear() -> None:
        family.its_end.recv(1 << 16)
        if watched[-1] == READ:
            family.loop.stop()

    real(family.its_end.fileno(), READ, hear)
    family.loop.run()
    assert left() is None


def test_a_job_that_was_given_up_before_it_was_born_is_killed_when_it_is(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the process would run the user's code, which it reads from its socket."""
    given_up = Job.__new__(Job)
    given_up.child, given_up.host, given_up.left_behind = family.job, SimpleNamespace(), []  # type: ignore[assignment]
    monkeypatch.setattr(Job, "_on_exit", lambda *_: None)
    given_up._cannot_be_killed()
    assert given_up.left_behind == ["the process of the job did not start; this host ends."]
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as born:
        family.nursery._on_started(family.job.zygote, {"serial": 1, "pid": born.pid})
        try:
            assert born.wait(30) == -signal.SIGKILL
        finally:
            born.kill()


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["at once", "in the middle"])
def test_it_is_known_that_a_job_does_not_listen_any_more(family: Family, size: int) -> None:
    errors: list[OSError] = []
    family.job.listen(family.loop, lambda: None)
    if size == 1:
        family.its_end.close()
    family.job.send(family.loop, memoryview(bytes(size)), lambda error: (errors.append(error), family.loop.stop())[0])
    family.its_end.close()
    family.loop.later(0.0, family.loop.stop)
    family.loop.run()
    assert [type(error) for error in errors] == [BrokenPipeError]


def test_a_zygote_that_stays_silent_about_the_end_of_its_job_is_woken_and_then_done_without(tmp_path: Path) -> None:
    control, other_end = socket.socketpair()
    ours, theirs = socket.socketpair()
    silent = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    os.kill(silent.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, silent.pid, os.WSTOPPED)
    job = ChildHandle(1, str(tmp_path / "slot"), ours, ZygoteHandle(silent.pid, control, []))
    job.running, job.pid = True, ended.pid

    job.wake_zygote()
    os.waitid(os.P_PID, silent.pid, os.WCONTINUED)
    job.wake_zygote()

    assert silent.wait() == -signal.SIGKILL
    ended.wait()
    for end in (control, other_end, ours, theirs):
        end.close()


def test_a_zygote_that_came_up_before_the_rest_is_the_first_one_and_no_other_is_started(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    early = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    nursery = ForkServerPool(Loop(), str(tmp_path), {"entry": "/nothing/there", "start_method": "fork"}, {})

    nursery.start([], SpawnedZygote(early.pid, ours.detach()))

    told = wire.receive(theirs).header
    assert (told["entry"], told["modules"]) == ("/nothing/there", [])
    assert wire.receive(theirs).header["op"] == "park"
    assert [zygote.pid for zygote in nursery._zygotes] == [early.pid]
    nursery.close()
    assert early.wait() == -signal.SIGKILL
    theirs.close()

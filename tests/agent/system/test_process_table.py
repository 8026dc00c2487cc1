from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.agent.system.processes.process_table import Process
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def started(*command: str, **extra: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that is killed in the end, also when a test fails before it could do that itself."""
    with subprocess.Popen(command, env={**os.environ, **extra}) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_process_that_a_signal_stopped_is_told_from_one_that_waits() -> None:
    with started(sys.executable, "-c", "import signal; signal.pause()") as child:
        found = process_table.read_process(child.pid)
        assert found is not None
        assert not process_table.is_stopped(found.identity())
        child.send_signal(signal.SIGSTOP)
        eventually_blocking(lambda: process_table.is_stopped(found.identity()), "it is stopped")
        assert not process_table.is_stopped((child.pid, found.started + 1)), "another process of that number"
        child.send_signal(signal.SIGCONT)
        eventually_blocking(lambda: not process_table.is_stopped(found.identity()), "it goes on")
    assert not process_table.is_stopped(found.identity())


PIDS = st.integers(1, 20)
TABLES = st.lists(st.builds(Process, pid=PIDS, started=st.integers(0, 3), parent=PIDS, session=PIDS), max_size=20).map(
    lambda found: {process.pid: process for process in found}
)
ROOTS = st.lists(st.tuples(PIDS, st.integers(0, 3)), max_size=4)
NAMES = st.text(st.characters(blacklist_categories=["Cs"]), max_size=15)


@given(pid=PIDS, name=NAMES, parent=PIDS, session=PIDS, started=st.integers(0, 2**63))
def test_a_stat_line_is_read_whatever_the_process_calls_itself(
    pid: int, name: str, parent: int, session: int, started: int
) -> None:
    rest = " ".join(["0"] * 15)
    line = f"{pid} ({name}) S {parent} 7 {session} {rest} {started} 1 2 3\n"
    assert process_table.parse_stat(line) == (Process(pid=pid, started=started, parent=parent, session=session), "S")


@given(TABLES, ROOTS)
def test_a_family_is_closed_and_grows_only_from_living_roots(
    table: process_table.Table, roots: list[process_table.Identity]
) -> None:
    found = process_table.process_tree(roots, table)
    alive = {pid for pid, started in roots if pid in table and table[pid].started == started}
    assert alive <= found <= table.keys()
    assert all(pid in found for pid, process in table.items() if process.parent in found or process.session in alive)
    assert all(pid in alive or table[pid].parent in found or table[pid].session in alive for pid in found)
    if not alive:
        assert found == set()


def test_this_process_is_seen_as_it_is() -> None:
    found = process_table.read_process(os.getpid())
    assert found is not None
    assert (found.parent, found.session) == (os.getppid(), os.getsid(0))
    assert found == process_table.read_table()[os.getpid()]
    assert abs(process_table.start_time(found) - psutil.Process().create_time()) < 2
    assert process_table.is_alive(found.identity())
    assert not process_table.is_alive((found.pid, found.started + 1))


def test_the_look_of_other_systems_sees_the_same_family() -> None:
    here, elsewhere = process_table.read_process(os.getpid()), process_table._read_psutil(os.getpid())
    assert here is not None
    assert elsewhere is not None
    assert (elsewhere.pid, elsewhere.parent, elsewhere.session) == (here.pid, here.parent, here.session)
    assert process_table._read_psutil(2**22 + 1) is None


_HIDDEN = """
import os
from jupyter_smx.agent.system.processes import process_table
before = len(process_table.read_table())
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
process_table.read_process(1)
found = process_table.read_process(os.getpid()).identity()
print(before, [*process_table.read_table()] == [os.getpid()], process_table.is_alive(found))
"""


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="only root mounts a /proc")
def test_a_system_that_hides_the_processes_of_others_shows_ours() -> None:
    mount = 'mount -t proc -o hidepid=1 proc /proc && "$@"'
    words = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", mount, "sh", sys.executable, "-c", _HIDDEN]
    environ = {**os.environ, "PYTHONPATH": os.fspath(Path(process_table.__file__).parents[4])}
    answer = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("2 True True\n", "")


def test_a_zombie_is_dead() -> None:
    with started(sys.executable, "-c", "pass") as child:
        identity = process_table.read_process(child.pid)
        eventually_blocking(
            lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, "it has ended and nobody waited"
        )
        assert process_table.read_process(child.pid) is None
        assert identity is None or not process_table.is_alive(identity.identity())


def test_everything_that_is_selected_ends_and_the_caller_never_does() -> None:
    line = f"SMX_TEST_MARK=of {os.getpid()}"
    family = "setsid sleep 1000 & sleep 1000 & wait"
    with started("/bin/sh", "-c", family, SMX_TEST_MARK=f"of {os.getpid()}") as child:
        eventually_blocking(
            lambda: len(process_table.find_marked([line], process_table.read_table())) == 3, "all three are there"
        )

        def select(known: process_table.Table) -> set[int]:
            child.poll()
            return process_table.find_marked([line], known) | {os.getpid(), 1}

        assert process_table.kill_all(select, 10.0) == set()
        assert child.wait() == -signal.SIGKILL
        assert process_table.find_marked([line], process_table.read_table()) == set()


_OF_ROOT = """
import os, subprocess, sys, traceback
from jupyter_smx.agent.system.processes import process_table

def end_both_as_nobody(roots):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    with subprocess.Popen(["sleep", "1000"]) as mine:
        def select(known):
            mine.poll()
            return {roots, mine.pid} & known.keys()
        try:
            print(process_table.kill_all(select, 20.0), mine.poll())
        finally:
            mine.kill()

with subprocess.Popen(["sleep", "1000"]) as roots:
    if os.fork() == 0:
        try:
            end_both_as_nobody(roots.pid)
        except OSError:
            traceback.print_exc()
        os._exit(0)
    os.wait()
    print(roots.poll())
    roots.kill()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process for somebody else")
def test_a_process_that_sudo_made_roots_keeps_no_other_from_its_end() -> None:
    environ = {**os.environ, "PYTHONPATH": os.fspath(Path(process_table.__file__).parents[4])}
    words = [sys.executable, "-u", "-c", _OF_ROOT]
    answer = subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=30)
    assert answer.stdout == "set() -9\nNone\n", answer.stderr
    assert "belong to another user" in answer.stderr


def test_an_end_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a process that waits for a disk that is gone: it is sent what it is sent, and stays."""
    with started("/bin/sleep", "1000") as child:
        with monkeypatch.context() as deaf:
            deaf.setattr(signal, "pidfd_send_signal", lambda *_: None, raising=False)
            deaf.setattr(os, "kill", lambda *_: None)
            assert process_table.kill_all(lambda known: {child.pid} & known.keys(), 0.0) == {child.pid}
        assert process_table.kill_all(lambda known: {child.pid} & known.keys(), 10.0) == set()
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_for_a_process_that_is_gone_never_reaches_the_one_that_has_its_number(number: signal.Signals) -> None:
    with started("/bin/sleep", "1000") as child:
        found = process_table.read_process(child.pid)
        assert found is not None
        process_table.send_signal(found._replace(started=found.started - 1), number)
        process_table.send_signal(Process(pid=2**22 + 1, started=1, parent=1, session=1), number)
        process_table.send_signal(found, signal.SIGUSR1)
        assert child.wait() == -signal.SIGUSR1  # the first signal that came


def test_a_kernel_without_process_descriptors_can_end_processes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown_call(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", unknown_call)
    with started("/bin/sleep", "1000") as child:
        found = process_table.read_process(child.pid)
        assert found is not None
        process_table.send_signal(found._replace(started=found.started + 1), signal.SIGKILL)
        assert child.poll() is None
        process_table.send_signal(found, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM


def test_selections_in_turn_share_their_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(process_table, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with started("/bin/sleep", "1000") as first, started("/bin/sleep", "1000") as second, monkeypatch.context() as deaf:
        deaf.setattr(signal, "pidfd_send_signal", lambda *_: None, raising=False)
        deaf.setattr(os, "kill", lambda *_: None)
        pids = [first.pid, second.pid]
        selections = [lambda known, pid=pid: {pid} & known.keys() for pid in pids]
        assert process_table.kill_in_turn(selections, 1.0) == set(pids)
    assert 1.0 <= now[0] < 1.1

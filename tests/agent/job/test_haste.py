"""A stop, and what is kept of its job: what gets on is waited for, what stands still or has no end is cut short."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from far_side import SAVES_AT_ITS_END

from jupyter_smx.agent.channels.checkpoint import FolderStore
from jupyter_smx.agent.job import stall_watchdog
from jupyter_smx.agent.system.files import safe_open
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import Timer
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from far_side import Agent

HASTY = """
import signal
from jupyter_smx.agent.__main__ import main
from jupyter_smx.agent.channels.checkpoint import FolderStore
from jupyter_smx.agent.job import stall_watchdog
stall_watchdog.STALL_TIMEOUT, stall_watchdog.MAX_DURATION, stall_watchdog._CHECK_INTERVAL = {still}, {longest}, 0.02
{more}
main()
"""
HANGS = """
import os
def put(self, *_):
    with open(os.path.dirname(self._root) + "/tries", "a") as tries: tries.write("x")
    signal.pause()
FolderStore.put = put
"""
"""Each errand tries once, and leaves a letter beside the place."""
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
        return start_agent(options={"program": program}, disk_patience=0.0)

    return start


def cut(still: float, longest: float) -> str:
    return (
        f"it was cancelled, because the job was asked to stop and nothing moved for {still:g} s, or it took over "
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
    assert (tmp_path / "tries").read_text() == "x", "another errand would hang for as long"
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
    assert (tmp_path / "tries").read_text() == "x"
    assert [one["name"] for one in record["artifacts"]] == ["outputs/r/result"]
    agent.serves()


def test_a_model_without_an_end_is_packed_until_a_stop_has_waited_for_it(hasty: Callable[..., Agent]) -> None:
    agent = hasty(60, 0.5)
    job, lease = agent.start(SPARSE.format(size=1 << 43))
    agent.client.event("exited", job)
    agent.stop(job, lease, grace=600.0)
    record = agent.end_of(job)
    assert (record["cause"], record["artifacts"]) == ("stopped", [])
    assert record["errors"] == [f"host: the job's outputs could not be stored: {cut(60, 0.5)}"]
    assert not list(agent.folder.rglob("*.part")), "who is killed cannot tidy up"
    agent.serves()


def test_an_exception_is_an_exception_although_the_model_beside_it_has_no_end(hasty: Callable[..., Agent]) -> None:
    agent = hasty(60, 0.5)
    job, lease = agent.start(SPARSE.format(size=1 << 43) + "\nraise ValueError('of its own')")
    agent.client.event("exited", job)
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"], record["exception"]["type"]) == ("exit", 1, "ValueError")
    assert record["errors"] == [f"host: the job's outputs could not be stored: {cut(60, 0.5)}"]


def test_a_full_disk_is_no_stop_although_a_checkpoint_was_cut_before(
    hasty: Callable[..., Agent], tmp_path: Path
) -> None:
    full = """
import errno
from jupyter_smx.agent.channels import pack_outputs
def no_room(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
pack_outputs.pack = no_room
"""
    agent = hasty(1.5, 60, HANGS + full)
    source = CHECKPOINT + "open(folder + 'last', 'w').close()"
    job, lease = agent.start(source, checkpoint=str(tmp_path / "kept"))
    agent.client.event("exited", job)
    agent.stop(job, lease)
    record = agent.end_of(job)
    assert (record["cause"], record["exit_code"]) == ("refused", None)
    assert record["errors"][0] == f"checkpoint: {cut(1.5, 60)}"
    assert "could not be stored" in record["errors"][1]


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
    """An errand that does as much as it is told to."""

    def __init__(self, *, is_seen: bool = True) -> None:
        self.bytes = 0
        self.why = ""
        self._is_seen = is_seen

    def activity(self) -> list[str]:
        return [f"{self.bytes} bytes"] if self._is_seen else []

    def abort(self, why: str) -> None:
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
    monkeypatch.setattr(stall_watchdog, "time", clock)
    return clock


def test_what_gets_on_is_waited_for_longer_than_what_stands_still_and_each_errand_has_its_own_time(
    clock: Clock,
) -> None:
    at_work = [Work(), Work()]
    hurry = stall_watchdog.StallWatchdog(clock, lambda: at_work[0])  # type: ignore[arg-type, return-value]
    hurry.start("")
    assert clock.calls == [], "nobody wished for an end"
    hurry.start("stopped")
    for _ in range(3):
        at_work[0].bytes += 1
        clock.pass_(stall_watchdog.STALL_TIMEOUT * 0.9)
    at_work.pop(0)
    clock.pass_(stall_watchdog.STALL_TIMEOUT * 0.9)
    clock.pass_(stall_watchdog.STALL_TIMEOUT * 0.9)
    assert (at_work[0].why, hurry.abort_cause) == ("", "")
    clock.pass_(stall_watchdog.STALL_TIMEOUT * 0.2)
    assert (at_work[0].why, hurry.abort_cause) == (
        cut(stall_watchdog.STALL_TIMEOUT, stall_watchdog.MAX_DURATION)[:-1],
        "stopped",
    )


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "where there is no proc"])
def test_what_has_no_end_is_cut_although_it_gets_on(clock: Clock, is_seen: bool) -> None:
    work = Work(is_seen=is_seen)
    stall_watchdog.StallWatchdog(clock, lambda: work).start("stopped")  # type: ignore[arg-type, return-value]
    for _ in range(int(stall_watchdog.MAX_DURATION / stall_watchdog.STALL_TIMEOUT) + 1):
        assert not work.why
        work.bytes += is_seen
        clock.pass_(stall_watchdog.STALL_TIMEOUT * 0.99)
    clock.pass_(stall_watchdog.STALL_TIMEOUT)
    assert work.why


def waiting(pid: int) -> list[str]:
    """Give the signs of a process as soon as it waits for something and shows no more of them."""
    seen: list[str] = []

    def is_still() -> bool:
        before, seen[:] = list(seen), process.activity([pid])
        return process.read_stat(pid)[0] == "S" and seen == before

    eventually_blocking(is_still, "it stands still")
    return seen


@pytest.mark.skipif(not process.LINUX, reason="there is no /proc")
@pytest.mark.parametrize("how", ["send", "sendfile"])
def test_what_a_process_sends_to_a_slow_reader_is_seen_while_it_does(tmp_path: Path, how: str) -> None:
    """A save that got on at 3 MB/s had stood still for ten minutes, for bytes are counted when a call returns."""
    (tmp_path / "file").write_bytes(bytes(8 << 20))
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    act = {
        "send": "line.sendall(file.read())",
        "sendfile": "import os; os.sendfile(line.fileno(), file.fileno(), 0, 8 << 20)",
    }[how]
    program = f"import socket, sys; line = socket.socket(fileno=0); file = open(sys.argv[1], 'rb'); {act}"
    with ours, theirs, subprocess.Popen([sys.executable, "-c", program, tmp_path / "file"], stdin=ours) as sender:
        theirs.recv(1)
        for _ in range(3):
            before = waiting(sender.pid)
            assert process.activity([sender.pid]) == before, "nobody reads"
            theirs.recv(1 << 20, socket.MSG_WAITALL)
            eventually_blocking(lambda seen=before: process.activity([sender.pid]) != seen, "it got on")
        sender.kill()
    assert process.activity([sender.pid]) == []


def test_a_checkpoint_is_written_in_pieces_as_it_was_with_its_mode_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, kept, sizes = tmp_path / "source", tmp_path / "kept", []
    source.write_bytes(os.urandom((3 << 20) + 1))
    source.chmod(0o640)
    os.utime(source, (1_000, 1_000))

    class Told(io.FileIO):
        def write(self, piece: Any) -> int:
            sizes.append(len(piece))
            return super().write(piece)

    monkeypatch.setattr(safe_open, "open_to_write", lambda path: Told(path, "x"))
    FolderStore(str(kept), "w").upload([(str(source), "inner/name", None)])
    assert sizes == [1 << 20] * 3 + [1]
    assert (kept / "inner" / "name").read_bytes() == source.read_bytes()
    assert [(kept / "inner" / "name").stat()[i] for i in (0, 6, 8)] == [source.stat()[i] for i in (0, 6, 8)]

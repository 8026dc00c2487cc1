"""A controller that takes long to start: it is waited for while its process lives, and kernels and pages say so."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx import controller_launch, controller_launch_errors, controller_start
from jupyter_smx.controller_start import ControllerStarter, due_note, gives_up
from jupyter_smx.data_folder.singleton_lock import SingletonLock
from jupyter_smx.kernel.client import autostart
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SlowStart:
    """A process that lives until the test ends it, and a controller that listens after ``ready_after`` seconds."""

    def __init__(self) -> None:
        self.time, self.ready_after = 1000.0, float("inf")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.on_wait: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.time

    def start_controller(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def wait_ready(self, seconds: float, process: subprocess.Popen[bytes] | None) -> bool:
        del process
        self.on_wait()
        self.time += seconds
        return self.time - 1000.0 >= self.ready_after

    def end(self, number: int = -1) -> None:
        process = self.processes[number]
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStart]:
    world = SlowStart()
    monkeypatch.setattr(controller_launch, "start_controller", world.start_controller)
    monkeypatch.setattr(controller_launch, "wait_ready", world.wait_ready)
    yield world
    for number in range(len(world.processes)):
        world.end(number)


def wait(starter: ControllerStarter) -> None:
    since = starter.begin()
    while not starter.is_ready(since):
        pass


@pytest.mark.parametrize(
    ("waited", "exit_code", "is_owner_starting", "expected"),
    [
        (119.5, None, False, False),
        (120.0, None, False, True),
        (0.5, 1, False, True),
        (0.5, -9, True, True),
        (19.5, 0, False, False),
        (20.0, 0, False, True),
        (119.5, 0, True, False),
        (120.0, 0, True, True),
    ],
)
def test_how_long_a_controller_is_waited_for(
    waited: float, exit_code: int | None, is_owner_starting: bool, expected: bool
) -> None:
    assert gives_up(waited, exit_code, is_owner_starting=is_owner_starting) is expected


@pytest.mark.parametrize(
    ("seconds", "before", "expected"),
    [(9.9, 0.0, ""), (10.2, 9.7, "10 s"), (10.7, 10.2, ""), (20.1, 19.6, "20 s"), (45.0, 12.0, "40 s")],
)
def test_a_note_is_due_every_ten_seconds(seconds: float, before: float, expected: str) -> None:
    note = due_note(seconds, before)
    assert note == (expected and f"The controller is still starting, {expected}.")


def test_a_kernel_waits_and_says_so(slow: SlowStart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autostart, "_starter", ControllerStarter(clock=slow.clock))
    slow.ready_after = 24.0
    notes: list[str] = []
    autostart.start(notes.append)
    assert notes == ["The controller is still starting, 10 s.", "The controller is still starting, 20 s."]


def test_a_background_thread_waits_without_a_note(slow: SlowStart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autostart, "_starter", ControllerStarter(clock=slow.clock))
    slow.ready_after = 24.0
    notes: list[str] = []
    thread = threading.Thread(target=autostart.start, args=(notes.append,))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert notes == []


def test_a_slow_controller_is_named_with_its_process_and_waited_for_again(slow: SlowStart) -> None:
    starter = ControllerStarter(clock=slow.clock)
    with pytest.raises(UnavailableError) as raised:
        wait(starter)
    pid = slow.processes[0].pid
    assert raised.value.message == f"The controller, process {pid}, is still starting after 120 s."
    assert f"`kill {pid}` ends it" in raised.value.cure
    assert controller_launch.log_path().name in raised.value.cure
    assert raised.value.transient
    slow.ready_after = 130.0
    wait(starter)
    assert len(slow.processes) == 1, "the process that lives is not joined by a second one"


def test_a_controller_that_dies_later_is_not_waited_for(slow: SlowStart) -> None:
    starter = ControllerStarter(clock=slow.clock)
    slow.on_wait = lambda: slow.end() if slow.time >= 1030.0 else None
    controller_launch.log_path().write_text("The disk went away.\n")
    with pytest.raises(UnavailableError, match="could not be started: The disk went away"):
        wait(starter)
    assert slow.time < 1032.0


def test_a_controller_of_another_program_that_has_the_lock_and_starts_slowly_is_waited_for(
    slow: SlowStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = SingletonLock(controller_launch.lock_path())
    assert lock.acquire()
    monkeypatch.setattr(controller_launch, "start_controller", lambda: subprocess.Popen(["/bin/true"]))
    starter = ControllerStarter(clock=slow.clock)
    slow.on_wait = lambda: None if starter.process is None else (starter.process.wait(), None)[1]
    with pytest.raises(UnavailableError, match=f"process {os.getpid()}, is still starting after 120 s"):
        wait(starter)
    os.utime(controller_launch.lock_path(), (1, 1))
    begin = slow.time
    with pytest.raises(UnavailableError, match=r"it has the lock of .* and does not listen there"):
        wait(starter)
    assert slow.time - begin == controller_start.HANDOVER_LIMIT
    lock.release()


async def test_a_page_sees_that_a_controller_is_still_starting(slow: SlowStart, extension: Any, jp_fetch: Any) -> None:
    extension.connection.starter = ControllerStarter(clock=slow.clock)
    begun, go_on = threading.Event(), threading.Event()

    def stop_at_twenty_seconds() -> None:
        if slow.time >= 1020.0:
            begun.set()
            go_on.wait(30)

    slow.on_wait = stop_at_twenty_seconds
    request = asyncio.ensure_future(extension.connection.ensure())
    await asyncio.to_thread(begun.wait, 30)
    state = json.loads((await jp_fetch("jupyter-smx", "controller")).body)
    assert state["running"] is False
    assert state["problem"]["message"] == "The controller is still starting, 20 s."
    assert state["problem"]["transient"] is True
    go_on.set()
    with pytest.raises(UnavailableError, match="is still starting after 120 s"):
        await request
    state = json.loads((await jp_fetch("jupyter-smx", "controller")).body)
    assert "is still starting after 120 s" in state["problem"]["message"]
    assert controller_launch_errors.START_LIMIT == 120.0

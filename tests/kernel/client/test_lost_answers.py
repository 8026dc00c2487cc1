"""Requests whose answer is lost on the way: which are sent again, for how long, and what is said in the end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller.errors import FencedError
from jupyter_smx.kernel.client.answer_wait import AnswerWait, RepeatPolicy
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.client.connection import Response
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError
from jupyter_smx.model.http_routes import ROUTES, UNREPEATABLE
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripted_controller import ScriptedController

SPEC = JobSpec(kind="train", source="x = 1", base_name="train")
JOB = "ab" * 8
GOOD = Response(200, {}, b"{}")
FENCED = Response(503, {}, b'{"code":"Fenced","message":"newer"}')
RESET = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected, http.client.IncompleteRead)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def policy(self) -> RepeatPolicy:
        return RepeatPolicy(5.0, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class World:
    """What each try of one request meets: an error, or an answer; the last one from then on."""

    def __init__(self, *meets: Any) -> None:
        self.meets = list(meets)
        self.sent = 0
        self.starts = 0
        self.is_closed = False
        self.clock = Clock()

    def send(self) -> Response:
        self.sent += 1
        met = self.meets.pop(0) if len(self.meets) > 1 else self.meets[0]
        if isinstance(met, Response):
            return met
        raise met

    def start(self) -> None:
        self.starts += 1

    def run(self, *, may_repeat: bool = True) -> Response:
        tries = AnswerWait(self.clock.policy(), self.start, lambda: self.is_closed, may_repeat=may_repeat)
        return tries.exchange(self.send)


@pytest.mark.parametrize("lost", RESET)
def test_a_request_is_sent_again_where_its_answer_was_lost(lost: type[Exception]) -> None:
    world = World(lost(b"half"), lost(b"half"), GOOD)
    assert world.run() is GOOD
    assert (world.sent, world.starts) == (3, 0)


def test_a_controller_is_started_where_none_listens_after_a_reset() -> None:
    world = World(ConnectionResetError(), ConnectionRefusedError(), ConnectionResetError(), FileNotFoundError(), GOOD)
    assert world.run() is GOOD
    assert (world.sent, world.starts) == (5, 2)


def test_a_controller_that_was_replaced_refuses_and_its_successor_is_asked() -> None:
    world = World(FENCED, GOOD)
    assert world.run() is GOOD
    assert World(FENCED).run() is FENCED, "after all of the patience it is the answer"


@pytest.mark.parametrize("met", [ConnectionResetError(), ConnectionRefusedError()])
def test_the_patience_has_an_end(met: Exception) -> None:
    world = World(met)
    with pytest.raises(type(met)):
        world.run()
    assert 5.0 <= world.clock.now <= 5.2
    assert 10 < world.sent < 60


def test_a_controller_that_does_not_answer_in_time_is_not_asked_again() -> None:
    world = World(TimeoutError())
    with pytest.raises(TimeoutError):
        world.run()
    assert world.sent == 1


def test_what_is_not_safe_to_repeat_is_sent_again_only_where_no_process_received_it() -> None:
    world = World(ConnectionRefusedError(), GOOD)
    assert world.run(may_repeat=False) is GOOD
    world = World(ConnectionResetError(), GOOD)
    with pytest.raises(ConnectionResetError):
        world.run(may_repeat=False)
    assert (world.sent, world.starts) == (1, 0)


def test_a_client_that_was_closed_sends_nothing_again_and_starts_nothing() -> None:
    for met in (ConnectionResetError(), ConnectionRefusedError()):
        world = World(met)
        world.is_closed = True
        with pytest.raises(type(met)):
            world.run()
        assert (world.sent, world.starts) == (1, 0)


def test_all_that_reads_or_has_an_id_is_safe_to_repeat() -> None:
    assert {route.action for route in ROUTES if route.method == "GET"}.isdisjoint(UNREPEATABLE)
    assert {"submit_job", "submit_array", "rerun_job", "stop_job", "stop_array", "plan_job"}.isdisjoint(UNREPEATABLE)
    assert sorted(UNREPEATABLE) == ["delete_job", "extend_pool", "fix", "interrupt_job", "release_pool", "update_job"]


@pytest.fixture
def client(controller: ScriptedController) -> Iterator[Client]:
    made = Client(controller_launch.socket_path(), controller.start, repeat=Clock().policy())
    yield made
    made.close()


def test_a_submission_whose_answers_are_lost_gives_the_job_that_was_accepted(
    client: Client, controller: ScriptedController
) -> None:
    controller.lost_answers = 3
    assert client.submit(JOB, SPEC).id == JOB
    assert controller.requests == ["POST /v1/jobs"] * 4
    assert list(controller.jobs) == [JOB]


def test_a_submission_that_is_never_answered_says_that_it_may_run(
    client: Client, controller: ScriptedController
) -> None:
    controller.lost_answers = 1000
    with pytest.raises(UnavailableError, match=f"may have been accepted with the ID {JOB}, and may run") as raised:
        client.submit(JOB, SPEC)
    assert "`%smx jobs`" in str(raised.value)
    assert list(controller.jobs) == [JOB]


def test_a_submission_that_no_controller_received_does_not_say_so(
    client: Client, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.kill()
    monkeypatch.setattr(client, "_start", lambda: None)
    with pytest.raises(UnavailableError) as raised:
        client.submit(JOB, SPEC)
    assert "may have been accepted" not in str(raised.value)


def test_a_start_that_fails_after_a_lost_submission_says_that_it_may_run(
    client: Client, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise UnavailableError("The controller could not be started, because of a read-only file system.", cure="Mend.")

    def accept_and_die(fake: ScriptedController, _job: Any) -> None:
        fake.lost_answers = 1000
        fake.kill()

    controller.on_submit = accept_and_die
    monkeypatch.setattr(client, "_start", refuse)
    with pytest.raises(UnavailableError) as raised:
        client.submit(JOB, SPEC)
    assert str(raised.value).startswith(
        "The controller could not be started, because of a read-only file system. Mend."
    )
    assert f"may have been accepted with the ID {JOB}" in str(raised.value)


def test_a_kept_connection_that_was_closed_meanwhile_is_no_lost_request(
    client: Client, controller: ScriptedController
) -> None:
    client.controller_info()
    controller.kill()
    controller.start()
    with pytest.raises(ResourceNotFoundError):  # an answer, although this request is never sent again
        client.release("pool-1")


def test_what_is_not_repeated_says_so_and_is_done_once(client: Client, controller: ScriptedController) -> None:
    client.controller_info()
    controller.lost_answers = 1
    with pytest.raises(UnavailableError, match="The request was not sent again, because a pool that is released"):
        client.release("pool-1")
    assert controller.requests.count("DELETE /v1/pools/pool-1") == 1


@pytest.fixture
def frozen(data_folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of the data folder, and is stopped."""
    controller_launch.ensure_folders()
    lock = data_folder / "controller.lock"
    code = (
        "import fcntl, os, signal, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(os.getpid(), file=file, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(lock)])
    try:
        _pid, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(30)


@pytest.mark.processes
def test_a_frozen_controller_is_called_that_with_its_process_and_both_ways_out(
    frozen: subprocess.Popen[bytes],
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(controller_launch.socket_address())
        listener.listen()
        client = Client(controller_launch.socket_path(), lambda: pytest.fail("one listens"), patience=0.2)
        with pytest.raises(UnavailableError) as raised:
            client.submit(JOB, SPEC)
        client.close()
    pid = frozen.pid
    assert str(raised.value).startswith(
        f"The controller, process {pid}, cannot be reached: it is stopped (SIGSTOP), and did not answer for 0.2 s. "
        f"`kill -CONT {pid}` continues it. `kill -9 {pid}` ends it; jobs and pools go on"
    )
    assert f"may have been accepted with the ID {JOB}" in str(raised.value)


@pytest.mark.processes
def test_a_lock_without_a_listener_names_its_process(frozen: subprocess.Popen[bytes]) -> None:
    error = controller_launch_errors.no_answer_error()
    folder = controller_launch.data_dir()
    assert error.message.startswith(f"The controller, process {frozen.pid}, cannot be reached: it is stopped (SIGSTOP)")
    assert f"has the lock of {folder}, and does not listen there" in error.message
    assert f"`kill -9 {frozen.pid}`" in error.cure
    assert controller_launch_errors.lock_owner() == frozen.pid


@pytest.mark.usefixtures("data_folder")
def test_a_lock_that_no_process_holds_has_no_owner() -> None:
    controller_launch.ensure_folders()
    assert controller_launch_errors.lock_owner() == 0
    (controller_launch.data_dir() / "controller.lock").write_text(f"{os.getpid()}\n")
    assert controller_launch_errors.lock_owner() == 0
    assert controller_launch_errors.silent_error().message == "The controller did not answer for 30 s."


def test_the_refusal_of_a_replaced_controller_is_recognized_as_it_is_written() -> None:
    body = msgspec.json.encode(FencedError("A newer controller owns the records.").body())
    assert controller_launch_errors.is_fenced(FencedError.status, body)
    assert not controller_launch_errors.is_fenced(503, b'{"code":"ServiceUnavailable","message":"Fenced"}')

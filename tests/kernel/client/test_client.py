from __future__ import annotations

import http.client
import os
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.kernel.client import autostart
from jupyter_smx.kernel.client.answer_wait import RepeatPolicy
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.kernel.client.connection import Connection
from jupyter_smx.model.errors import ResourceNotFoundError, UnavailableError, ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from scripted_controller import ScriptedController

SPEC = JobSpec(kind="train", source="x = 1", base_name="train")


@pytest.fixture
def client(controller: ScriptedController) -> Iterator[Any]:  # noqa: ARG001 - it must be there first
    made = autostart.client()
    yield made
    made.close()


def test_requests_share_one_connection(client: Client, controller: ScriptedController) -> None:
    for _ in range(5):
        client.controller_info()
    client.submit("ab" * 8, SPEC)
    assert controller.connections == 1


@pytest.mark.parametrize("ref", ["", None, 7, SPEC, "caf\udce9", "a\nb"])
def test_what_cannot_be_a_name_is_refused_before_anybody_is_asked(
    client: Client, controller: ScriptedController, ref: Any
) -> None:
    with pytest.raises(ValidationError, match="is not a job"):
        client.job(ref)
    assert controller.targets == []


def test_waiting_has_a_connection_of_its_own_so_that_a_submit_never_stands_behind_it(
    client: Client, controller: ScriptedController
) -> None:
    client.submit("ab" * 8, SPEC)
    waiting = threading.Thread(target=client.wait, args=("ab" * 8, 20.0))
    waiting.start()
    client.submit("cd" * 8, SPEC)
    controller.end("ab" * 8)
    waiting.join(10)
    assert not waiting.is_alive()
    assert controller.connections == 2


def test_a_connection_that_went_stale_is_opened_again_once_and_the_job_is_one(
    client: Client, controller: ScriptedController
) -> None:
    client.controller_info()
    controller.answers_before_hanging_up = 0
    job = client.submit("ab" * 8, SPEC)
    assert job.id == "ab" * 8
    assert controller.requests.count("POST /v1/jobs") == 2
    assert len(controller.jobs) == 1
    assert controller.connections == 2


@pytest.mark.usefixtures("data_folder")
def test_a_server_that_always_hangs_up_is_an_outage_and_no_endless_loop() -> None:
    controller_launch.ensure_folders()
    hung_up = []
    moments = iter(range(4))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(controller_launch.socket_address())
        listener.listen()

        def hang_up() -> None:
            for _ in range(2):
                taken, _ = listener.accept()
                taken.recv(10_000)
                taken.close()
                hung_up.append(1)

        thread = threading.Thread(target=hang_up)
        thread.start()
        client = Client(
            controller_launch.socket_path(),
            lambda: pytest.fail("it is there, so nothing is to be started"),
            repeat=RepeatPolicy(1.0, lambda: float(next(moments)), lambda _seconds: None),
        )
        with pytest.raises(UnavailableError, match="RemoteDisconnected"):
            client.controller_info()
        thread.join(10)
    Path(controller_launch.socket_address()).unlink()
    assert len(hung_up) == 2


def test_a_controller_that_died_is_started_again_and_gets_the_request(
    client: Client, controller: ScriptedController
) -> None:
    client.controller_info()
    controller.kill()
    assert client.submit("ab" * 8, SPEC).id == "ab" * 8


def test_a_refusal_comes_back_as_the_error_that_the_controller_raised(
    client: Client, controller: ScriptedController
) -> None:
    wish = JobSpec(kind="train", source="x", instance_groups=(InstanceGroup(instance_type="ml.m5.xlrge"),))
    with pytest.raises(ValidationError, match=r"'ml\.m5\.xlrge' is not an instance type.*Did you mean ml\.m5\.xlarge"):
        client.submit("ab" * 8, wish)
    assert controller.jobs == {}
    with pytest.raises(ResourceNotFoundError):
        client.job("a/../b")


def test_an_interrupt_in_the_middle_of_an_answer_leaves_no_half_answer_for_the_next_request(client: Client) -> None:
    client.controller_info()
    with pytest.MonkeyPatch.context() as patch:

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(http.client.HTTPResponse, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.submit("ab" * 8, SPEC)
    assert client.controller_info().pid == os.getpid()


def test_a_client_that_is_closed_starts_no_controller(
    controller: ScriptedController, monkeypatch: pytest.MonkeyPatch, eventually_blocking: Any
) -> None:
    started: list[int] = []
    monkeypatch.setattr(autostart, "start", lambda _report: started.append(1))
    client = autostart.client()
    client.submit("ab" * 8, SPEC)
    outcome: list[Exception] = []

    def wait() -> None:
        try:
            client.wait("ab" * 8, 30.0)
        except UnavailableError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually_blocking(lambda: any("wait=" in target for target in controller.targets), "the wait")
    client.close()
    thread.join(10)
    assert len(outcome) == 1
    assert sum("wait=" in target for target in controller.targets) == 1
    with pytest.raises(UnavailableError, match="closed"):
        client.controller_info()
    assert started == []


@pytest.mark.processes
def test_a_forked_child_opens_a_connection_of_its_own(client: Client, controller: ScriptedController) -> None:
    client.controller_info()
    child = os.fork()
    if child == 0:
        try:
            client.controller_info()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child must not run the rest of the tests
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.controller_info()
    assert controller.connections == 2


@pytest.mark.usefixtures("data_folder")
def test_a_controller_that_cannot_be_started_says_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(python: Any = "", **_: Any) -> Any:  # noqa: ARG001 - it must be there first
        controller_launch.ensure_folders()
        controller_launch.log_path().write_text("Traceback\nOSError: disk full\n")

        class Process:
            def poll(self) -> Any:
                return 1

        return Process()

    monkeypatch.setattr(controller_launch, "start_controller", broken)
    with pytest.raises(UnavailableError, match="OSError: disk full"):
        autostart.client().controller_info()


def test_nobody_there_is_said_by_the_connection_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Connection(tmp_path / "no.sock").exchange("GET", "/v1/", None, 1.0)


def test_a_connection_that_is_hung_up_before_it_is_open_sends_nothing(controller: ScriptedController) -> None:
    connection = Connection(controller_launch.socket_path())
    connection.abort()
    with pytest.raises(ConnectionAbortedError):
        connection.exchange("GET", "/v1/", None, 1.0)
    assert controller.requests == []


@pytest.mark.usefixtures("controller")
def test_ctrl_c_while_an_answer_is_closed_reaches_the_caller() -> None:
    connection = Connection(controller_launch.socket_path())

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is http.client.HTTPResponse.close.__code__:
            raise KeyboardInterrupt

    def exchange_twice() -> None:
        for _ in range(2):
            connection.exchange("GET", "/v1/", None, 1.0)

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            exchange_twice()
    finally:
        sys.setprofile(before)
    connection.close()


def test_a_platform_without_unix_sockets_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(UnavailableError, match=r"which this Python lacks\. On Windows run Jupyter in WSL"):
        Client(tmp_path / "controller.sock", lambda: None).controller_info()

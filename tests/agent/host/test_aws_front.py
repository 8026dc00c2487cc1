"""Jobs of a container reach the front for clients of AWS at the port of their variables, by a relay of the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.agent.host import aws_front, socket_relay
from jupyter_smx.agent.paths import AWS_SOCKET, AWS_VARIABLES
from jupyter_smx.testing import process_scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from far_side import Agent

pytestmark = pytest.mark.usefixtures("own_shared_memory")

REQUEST = """
import os, urllib.request
try:
    print(urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL_S3"] + "/bucket").read().decode())
except OSError as error:
    print(type(error).__name__)
"""


class Front:
    """A server at a unix socket that answers each request with its head, as a front does with its buckets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / AWS_SOCKET
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            with client, contextlib.suppress(BrokenPipeError):
                head = client.recv(65_536)
                client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + head)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink()


@pytest.fixture
def folder(far_folder: Path) -> Path:
    found = far_folder / "aws"
    found.mkdir()
    return found


@pytest.fixture
def front(folder: Path) -> Iterator[Front]:
    found = Front(folder)
    yield found
    if found.path.exists():
        found.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def variables(port: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    return {"JUPYTER_SMX_AWS": "AWS_ACCESS_KEY_ID,AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_S3": url}


@pytest.mark.parametrize(
    ("changes", "port"),
    [
        ({}, 4711),
        ({"JUPYTER_SMX_AWS": ""}, 0),
        ({"JUPYTER_SMX_AWS": "AWS_ACCESS_KEY_ID"}, 0),
        ({"AWS_ENDPOINT_URL_S3": "http://own:4711"}, 0),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:47/11"}, 0),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:65535"}, 65_535),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:65536"}, 0),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:0"}, 0),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:" + "9" * 5_000}, 0),
    ],
)
def test_only_variables_of_the_front_name_its_port(changes: dict[str, str], port: int) -> None:
    assert AWS_VARIABLES == controller_launch.AWS_VARIABLES
    assert aws_front.port_of({**variables(4711), **changes}) == port


def test_a_job_gets_the_port_and_the_configuration_of_its_host(tmp_path: Path) -> None:
    own = {**variables(4711), "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:4711", "OTHER": "http://127.0.0.1:4711"}
    other = {**own, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    assert aws_front.name_port(own, 9) == other, "only what the front added"
    config = {**own, "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": "/run/smx-aws/a.yaml"}
    placed = aws_front.place_sdk_config(config, "text", str(tmp_path), "/shown")
    assert placed == {**config, "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": "/shown/a.yaml"}
    assert (tmp_path / "a.yaml").read_text() == "text"
    assert aws_front.drop_missing_sdk_config(config) == own, "the SDK needs the file that the variable names"
    users = {**own, "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": "/home/me/a.yaml"}
    for kept in (own, placed, users):
        assert aws_front.drop_missing_sdk_config(kept) == kept


def test_jobs_reach_the_front_at_the_port_of_their_variables(
    start_agent: Callable[..., Agent], folder: Path, front: Front, wait_until: Callable[..., object]
) -> None:
    agent, port = start_agent(aws_front=str(folder)), free_port()
    for _ in range(2):
        record = agent.run(REQUEST, environment=variables(port))
        assert f"GET /bucket HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: 127.0.0.1:{port}" in record["text"]
        assert not record["left_behind"]
    front.close()
    ended = agent.run(REQUEST, environment=variables(port))["text"]
    assert ended in {"RemoteDisconnected\n", "ConnectionResetError\n"}
    again = Front(folder)
    (relay,) = (seen.pid for seen in process_scan.processes() if seen.command.endswith(f" {folder}/{AWS_SOCKET}"))
    os.kill(relay, signal.SIGKILL)
    log = agent.folder / "agent.log"
    wait_until(lambda: f"the relay of port {port} ended" in log.read_text(), "the agent reaped the relay")
    assert exchange(("127.0.0.1", port)).endswith(b"GET /"), "without another job"
    assert "GET /bucket" in agent.run(REQUEST, environment=variables(port))["text"]
    again.close()


def test_a_host_without_the_folder_and_a_taken_port_leave_the_job_as_it_is(
    start_agent: Callable[..., Agent], folder: Path, front: Front
) -> None:
    assert start_agent().run(REQUEST, environment=variables(free_port()))["text"] == "URLError\n"
    agent = start_agent(aws_front=str(folder))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert agent.run("print('ran')", environment=variables(port))["text"] == "ran\n"
        assert agent.run("print('ran')", environment=variables(65_536))["text"] == "ran\n"
    assert f"port {port} does not lead to the front" in (agent.folder / "agent.log").read_text()
    assert front.path.exists()


@pytest.mark.parametrize(("refused", "closed"), [(1, 0), (2, 0), (3, 1)])
def test_a_relay_at_the_limit_of_processes_closes_one_connection_and_goes_on(
    front: Front, monkeypatch: pytest.MonkeyPatch, refused: int, closed: int
) -> None:
    starts: list[threading.Thread] = []
    start = threading.Thread.start

    def start_unless_refused(thread: threading.Thread) -> None:
        starts.append(thread)
        if len(starts) == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(socket_relay, "_RETRY_DELAY", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = threading.Thread(target=socket_relay.serve, args=(listener, str(front.path)))
        relay.start()
        monkeypatch.setattr(threading.Thread, "start", start_unless_refused)
        answers = [exchange(listener.getsockname()) for _ in range(3)]
        listener.shutdown(socket.SHUT_RDWR)
        relay.join()
    whole = b"HTTP/1.0 200 OK\r\n\r\nGET /"
    assert answers == [b"" if number == closed else whole for number in range(3)]


def exchange(address: tuple[str, int]) -> bytes:
    """Send a request; return what comes until the connection is closed."""
    with socket.create_connection(address, timeout=10) as client, contextlib.suppress(OSError):
        client.sendall(b"GET /")
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as file:
            return file.read()
    return b""


def test_large_answers_and_half_closed_connections_arrive_whole(tmp_path: Path) -> None:
    sent = os.urandom(3_000_000)
    with socket.socket(socket.AF_UNIX) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        server.bind(str(tmp_path / "s"))
        server.listen()
        relay = threading.Thread(target=socket_relay.serve, args=(listener, str(tmp_path / "s")))
        relay.start()
        client = socket.create_connection(listener.getsockname())
        peer = server.accept()[0]
        echo = threading.Thread(target=copy_all, args=(peer,))
        echo.start()
        upload = threading.Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
        upload.start()
        with client, client.makefile("rb") as file:
            assert file.read() == sent
        listener.shutdown(socket.SHUT_RDWR)
        for thread in (upload, echo, relay):
            thread.join()


def copy_all(peer: socket.socket) -> None:
    """Send a connection's bytes back until its other side has no more."""
    with peer:
        while data := peer.recv(65_536):
            peer.sendall(data)

"""Connections of hosts on several machines: both sides need the key, and nothing on the way can speak for them."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent import wire
from jupyter_smx.agent.launchers import host_connection
from jupyter_smx.agent.launchers.host_connection import AuthenticationError, KeyedConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "6b6579" * 10
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Give both ends of a connection."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """Do two things at once; give what each returned or raised."""

    def outcome(act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (OSError, EOFError) as error:
            return error

    with ThreadPoolExecutor() as pool:
        return list(pool.map(outcome, (first, second)))


def proved(ends: Ends, *, key: str = KEY, host: str = "algo-2") -> list[Any]:
    """Let a listener of algo-2 with the key meet a connector; an end whose side refuses is closed, as in the agent."""

    def closing(sock: socket.socket, prove: Callable[[], KeyedConnection]) -> KeyedConnection:
        try:
            return prove()
        except AuthenticationError:
            sock.shutdown(socket.SHUT_RDWR)
            raise

    return both(
        lambda: closing(ends[0], lambda: host_connection.prove_as_listener(ends[0], KEY, "algo-2")),
        lambda: closing(ends[1], lambda: host_connection.prove_as_connector(ends[1], key, host)),
    )


def connected(ends: Ends) -> list[KeyedConnection]:
    found = proved(ends)
    assert all(isinstance(one, KeyedConnection) for one in found), found
    return found


def test_two_hosts_with_the_key_exchange_frames_in_both_directions(ends: Ends) -> None:
    listener, connector = connected(ends)
    for number in range(3):
        connector.send({"command": "é" * number})
        assert listener.receive() == {"command": "é" * number}
        listener.send({"code": number})
        assert connector.receive() == {"code": number}
    ends[1].close()
    with pytest.raises(EOFError):
        listener.receive()


@pytest.mark.parametrize("other", [{"key": "another"}, {"key": ""}, {"host": "algo-3"}])
def test_another_key_or_another_host_of_the_job_is_a_stranger_to_both(ends: Ends, other: dict[str, str]) -> None:
    assert [type(one) for one in proved(ends, **other)] == [AuthenticationError, AuthenticationError]


def test_neither_the_key_nor_a_secret_from_it_is_ever_sent(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(host_connection.socket.socket, "sendall", _recorded(sent))
    listener, connector = connected(ends)
    connector.send({"a": 1})
    listener.receive()
    text = b"".join(sent)
    assert len(sent) == 4
    for secret in (KEY, host_connection.derive(KEY, "spark")):
        assert secret.encode() not in text
        assert bytes.fromhex(secret) not in text


def _recorded(sent: list[bytes]) -> Callable[..., None]:
    original = socket.socket.sendall

    def sendall(self: socket.socket, data: bytes) -> None:
        sent.append(data)
        original(self, data)

    return sendall


def test_an_answer_that_was_recorded_proves_nothing_the_next_time(ends: Ends) -> None:
    """A program that has seen a whole exchange sends the bytes of the connector again."""
    with pytest.MonkeyPatch.context() as patch:
        sent: list[bytes] = []
        patch.setattr(host_connection.socket.socket, "sendall", _recorded(sent))
        connected(ends)
    (answer,) = [data for data in sent if len(data) == 64]
    one, other = socket.socketpair()
    with one, other:
        other.sendall(answer)
        with pytest.raises(AuthenticationError):
            host_connection.prove_as_listener(one, KEY, "algo-2")


@pytest.mark.parametrize("bytes_", [b"", b"GET / HTTP/1.1\r\n".ljust(64, b"x")])
def test_what_knows_nothing_of_the_key_gets_random_bytes_and_no_more(ends: Ends, bytes_: bytes) -> None:
    ends[1].sendall(bytes_)
    ends[1].shutdown(socket.SHUT_WR)
    with pytest.raises(AuthenticationError):
        host_connection.prove_as_listener(ends[0], KEY, "algo-2")
    ends[0].close()
    assert len(ends[1].recv(1000)) == 32
    assert ends[1].recv(1000) == b""


def test_a_program_that_says_nothing_is_not_waited_for(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host_connection.VISITOR_TIMEOUT < host_connection.PROOF_TIMEOUT / 4, "a few of them may come before a host"
    monkeypatch.setattr(host_connection, "VISITOR_TIMEOUT", 0.05)
    with pytest.raises(OSError, match=r"timed out|too long"):
        host_connection.prove_as_listener(ends[0], KEY, "algo-2")
    monkeypatch.setattr(host_connection, "PROOF_TIMEOUT", 0.05)
    with pytest.raises(OSError, match=r"timed out|too long"):
        host_connection.prove_as_connector(ends[1], KEY, "algo-2")


def test_a_frame_that_was_changed_repeated_or_turned_back_is_refused(ends: Ends) -> None:
    listener, connector = connected(ends)
    connector.send({"command": "true"})
    frame = wire.receive(ends[0])
    for body, header in (
        (frame.body.replace(b"true", b"rm x"), frame.header),
        (frame.body, {"code": ""}),
        (frame.body, {"code": "é"}),
    ):
        ends[1].sendall(wire.encode({"code": header["code"]}, body))
        with pytest.raises(AuthenticationError):
            listener.receive()
    good = wire.encode({"code": frame.header["code"]}, frame.body)
    ends[1].sendall(good)
    assert listener.receive() == {"command": "true"}
    ends[1].sendall(good)
    with pytest.raises(AuthenticationError):
        listener.receive()
    ends[0].sendall(good)
    with pytest.raises(AuthenticationError):
        connector.receive()


def test_what_is_no_frame_is_a_lost_connection(ends: Ends) -> None:
    listener, _ = connected(ends)
    ends[1].sendall(b"\xff" * 100)
    with pytest.raises(OSError, match="header: 4294967295 bytes"):
        listener.receive()


def test_secrets_of_different_purposes_and_jobs_differ() -> None:
    found = {host_connection.derive(key, purpose) for key in (KEY, "b") for purpose in ("spark", "x")}
    assert len(found) == 4
    assert json.dumps(host_connection.derive(KEY, "spark")) == json.dumps(host_connection.derive(KEY, "spark"))

"""Requests over a unix socket: which connections stay open, and which no other request may use."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from tornado.httpclient import HTTPRequest
from tornado.httputil import HTTPInputError
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError

from jupyter_smx.server.socket_client import SocketClient
from jupyter_smx.testing.eventually import eventually

sys.path.insert(0, str(Path(__file__).parent))

from scripted_server import Peer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LONG = 60.0
"""Seconds; no test waits for them."""


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    await scripted.listen(tmp_path / "s")
    yield scripted
    await scripted.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[SocketClient]:
    opened = new_client(tmp_path)
    yield opened
    opened.close()


def new_client(folder: Path, concurrent: int = 10, idle_limit: float = LONG) -> SocketClient:
    return SocketClient(lambda: str(folder / "s"), concurrent, idle_limit)


def get(path: str = "/a", limit: float = LONG, **options: Any) -> HTTPRequest:
    return HTTPRequest(f"http://localhost{path}", request_timeout=limit, connect_timeout=LONG, **options)


async def test_two_requests_use_one_connection(server: ScriptedServer, client: SocketClient) -> None:
    first, second = await client.fetch(get("/a?b=c")), await client.fetch(get("/d", method="POST", body=b"{1}"))
    assert (first.code, first.body, second.code) == (200, b"{}", 200)
    assert server.requests == ["GET /a?b=c", "POST /d {1}"]
    assert len(server.peers) == 1


async def test_requests_at_once_use_a_connection_each(server: ScriptedServer, client: SocketClient) -> None:
    for _ in range(2):
        await asyncio.gather(*(client.fetch(get()) for _ in range(3)))
    assert (len(server.peers), len(server.requests)) == (3, 6)


async def test_an_unused_connection_is_closed_after_its_seconds(server: ScriptedServer, tmp_path: Path) -> None:
    client = new_client(tmp_path, idle_limit=0.01)
    await client.fetch(get())
    await server.peers[0].ended.wait()
    await client.fetch(get())
    assert len(server.peers) == 2


async def test_a_connection_in_use_is_not_closed_as_unused(server: ScriptedServer, tmp_path: Path) -> None:
    client, may_answer = new_client(tmp_path, idle_limit=0.01), asyncio.Event()

    async def answer_late(peer: Peer) -> None:
        await may_answer.wait()
        await server.answer_well(peer)

    await client.fetch(get())
    server.answer = answer_late
    late = asyncio.ensure_future(client.fetch(get("/late")))
    await eventually(lambda: "GET /late" in server.requests)
    server.answer = server.answer_well
    await new_client(tmp_path, idle_limit=0.01).fetch(get())
    await server.peers[1].ended.wait()  # the seconds of an unused connection are over
    may_answer.set()
    assert (await late).code == 200


async def test_a_connection_that_the_server_closed_costs_no_request(
    server: ScriptedServer, client: SocketClient
) -> None:
    await client.fetch(get())
    server.peers[0].shut_down()
    assert (await client.fetch(get("/b", method="DELETE"))).code == 200
    assert server.requests == ["GET /a", "DELETE /b"]


async def test_a_server_that_took_the_address_over_gets_the_next_request(
    server: ScriptedServer, client: SocketClient, tmp_path: Path
) -> None:
    await client.fetch(get())
    after = ScriptedServer()
    await after.listen(tmp_path / "s")
    await client.fetch(get("/b"))
    assert (server.requests, after.requests) == (["GET /a"], ["GET /b"])
    await after.close()


async def test_no_connection_is_used_after_its_address_was_removed(
    server: ScriptedServer, client: SocketClient, tmp_path: Path
) -> None:
    await client.fetch(get())
    (tmp_path / "s").unlink()
    with pytest.raises(FileNotFoundError):
        await client.fetch(get())
    assert len(server.requests) == 1


async def test_a_cancelled_request_leaves_no_half_answer_to_the_next(
    server: ScriptedServer, client: SocketClient
) -> None:
    async def answer_in_part(peer: Peer) -> None:
        peer.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nold")

    await client.fetch(get())
    server.answer = answer_in_part
    cancelled = asyncio.ensure_future(client.fetch(get("/old")))
    await eventually(lambda: "GET /old" in server.requests)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await server.peers[0].ended.wait()
    server.answer = server.answer_well
    assert (await client.fetch(get("/new"))).body == b"{}"
    assert len(server.peers) == 2


async def test_an_answer_that_announces_the_close_is_the_last_of_its_connection(
    server: ScriptedServer, client: SocketClient
) -> None:
    async def answer_last(peer: Peer) -> None:
        peer.writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")

    server.answer = answer_last
    await client.fetch(get())
    await client.fetch(get())
    assert len(server.peers) == 2


async def test_an_answer_that_breaks_off_is_an_error_of_one_request(
    server: ScriptedServer, client: SocketClient
) -> None:
    async def break_off(peer: Peer) -> None:
        peer.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nold")
        peer.writer.close()

    await client.fetch(get())
    server.answer = break_off
    with pytest.raises(HTTPStreamClosedError):
        await client.fetch(get("/b", method="DELETE"))
    server.answer = server.answer_well
    assert (await client.fetch(get("/c"))).body == b"{}"
    assert server.requests == ["GET /a", "DELETE /b", "GET /c"]


async def test_a_silent_server_is_given_up_and_its_connection_closed(
    server: ScriptedServer, client: SocketClient
) -> None:
    server.answer = server.stay_silent
    with pytest.raises(HTTPTimeoutError, match="during request"):
        await client.fetch(get(limit=0.01))
    await server.peers[0].ended.wait()


async def test_a_request_waits_until_another_one_has_its_answer_and_is_given_up_in_time(
    server: ScriptedServer, tmp_path: Path
) -> None:
    client, may_answer = new_client(tmp_path, concurrent=1), asyncio.Event()

    async def answer_late(peer: Peer) -> None:
        await may_answer.wait()
        await server.answer_well(peer)

    server.answer = answer_late
    first, second = (asyncio.ensure_future(client.fetch(get(path))) for path in ("/a", "/b"))
    await eventually(lambda: "GET /a" in server.requests)
    with pytest.raises(HTTPTimeoutError, match="in request queue"):
        await client.fetch(get("/c", limit=0.01))
    may_answer.set()
    await asyncio.gather(first, second)
    assert server.requests == ["GET /a", "GET /b"]
    assert len(server.peers) == 1
    client.close()


async def test_closing_ends_requests_under_way_and_unused_connections(
    server: ScriptedServer, client: SocketClient
) -> None:
    await asyncio.gather(client.fetch(get()), client.fetch(get()))
    server.answer = server.stay_silent
    waiting = asyncio.ensure_future(client.fetch(get("/b")))
    await eventually(lambda: "GET /b" in server.requests)
    client.close()
    with pytest.raises(HTTPStreamClosedError):
        await waiting
    for peer in server.peers:
        await peer.ended.wait()


async def test_no_server_is_an_error_by_which_nothing_was_sent(client: SocketClient, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await client.fetch(get())
    gone = ScriptedServer()
    await gone.listen(tmp_path / "s")
    assert gone._server is not None
    gone._server.close()
    (tmp_path / "s").touch()
    with pytest.raises(ConnectionRefusedError):
        await client.fetch(get())


async def test_a_body_is_passed_on_in_chunks_after_its_head(server: ScriptedServer, client: SocketClient) -> None:
    async def answer_in_chunks(peer: Peer) -> None:
        peer.writer.write(b"HTTP/1.1 201 Created\r\nX-Smx-Offset: 7\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        peer.writer.write(b"0\r\n\r\n")

    server.answer = answer_in_chunks
    lines: list[str] = []
    chunks: list[bytes] = []

    async def take(chunk: bytes) -> None:
        chunks.append(chunk)

    answer = await client.fetch(get(limit=0, header_callback=lines.append, streaming_callback=take))
    assert (answer.code, answer.body, b"".join(chunks)) == (201, b"", b"abc")
    assert lines == ["HTTP/1.1 201 Created\r\n", "X-Smx-Offset: 7\r\n", "Transfer-Encoding: chunked\r\n", "\r\n"]
    await client.fetch(get(limit=0, streaming_callback=take))
    assert len(server.peers) == 1


async def test_a_receiver_that_takes_no_more_ends_its_connection(server: ScriptedServer, client: SocketClient) -> None:
    async def refuse(chunk: bytes) -> None:
        raise HTTPInputError(f"no more than {len(chunk)} bytes")

    with pytest.raises(HTTPStreamClosedError):
        await client.fetch(get(limit=0, streaming_callback=refuse))
    await server.peers[0].ended.wait()


async def test_a_request_with_no_body_says_so(server: ScriptedServer, client: SocketClient) -> None:
    await client.fetch(get("/stop", method="POST", allow_nonstandard_methods=True))
    await client.fetch(get("/a"))
    assert "Content-Length: 0\r\n" in server.heads[0]
    assert "Content-Length" not in server.heads[1]
    assert all("Host: localhost\r\n" in head for head in server.heads)

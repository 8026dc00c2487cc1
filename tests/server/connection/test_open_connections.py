"""Requests to the controller by connections that stay open: which are sent again, and when a controller is started."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.server.connection import ControllerConnection, NoControllerError
from jupyter_smx.testing.eventually import eventually

sys.path.insert(0, str(Path(__file__).parent))

from scripted_server import Peer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    await scripted.listen(socket_path())
    yield scripted
    await scripted.close()


@pytest.fixture
def connection() -> Iterator[ControllerConnection]:
    opened = ControllerConnection()
    yield opened
    opened.close()


def socket_path() -> Path:
    return Path(controller_launch.socket_address())


async def test_an_unrepeatable_request_on_a_connection_that_was_closed_is_sent_once(
    server: ScriptedServer, connection: ControllerConnection
) -> None:
    await connection.request("GET", "/v1/")
    server.peers[0].shut_down()
    answer = await connection.request("DELETE", "/v1/jobs/a", on_lost="raise")
    assert answer.code == 200
    assert server.requests == ["GET /v1/", "DELETE /v1/jobs/a"]


async def test_an_unrepeatable_request_whose_answer_is_lost_on_an_open_connection_is_not_sent_again(
    server: ScriptedServer, connection: ControllerConnection
) -> None:
    async def cut(peer: Peer) -> None:
        peer.writer.close()

    await connection.request("GET", "/v1/")
    server.answer = cut
    with pytest.raises(UnavailableError, match="did not answer"):
        await connection.request("DELETE", "/v1/jobs/a", on_lost="raise")
    assert server.requests == ["GET /v1/", "DELETE /v1/jobs/a"]
    assert len(server.peers) == 1


async def test_a_repeatable_request_whose_answer_is_lost_on_an_open_connection_is_sent_again(
    server: ScriptedServer, connection: ControllerConnection
) -> None:
    async def cut_once(peer: Peer) -> None:
        server.answer = server.answer_well
        peer.writer.close()

    await connection.request("GET", "/v1/")
    server.answer = cut_once
    assert (await connection.request("POST", "/v1/jobs", body=b'{"id":"ab"}')).code == 200
    assert server.requests == ["GET /v1/", 'POST /v1/jobs {"id":"ab"}', 'POST /v1/jobs {"id":"ab"}']


async def test_a_controller_is_started_after_the_one_of_an_open_connection_has_ended(
    server: ScriptedServer, connection: ControllerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = ScriptedServer()

    async def start() -> None:
        await after.listen(socket_path())

    monkeypatch.setattr(connection, "_start", start)
    await connection.request("GET", "/v1/")
    socket_path().unlink()
    await server.close()
    with pytest.raises(NoControllerError):
        await connection.request("GET", "/v1/", on_lost="repeat")
    assert (await connection.request("POST", "/v1/jobs", body=b"{}", on_lost="start")).code == 200
    assert after.requests == ["POST /v1/jobs {}"]
    await after.close()


async def test_a_long_poll_ends_with_its_controller_and_the_next_request_reaches_the_new_one(
    server: ScriptedServer, connection: ControllerConnection
) -> None:
    await connection.request("GET", "/v1/")
    server.answer = server.stay_silent
    poll = asyncio.ensure_future(connection.request("GET", "/v1/changes", wait=25.0))
    await eventually(lambda: "GET /v1/changes" in server.requests)
    after = ScriptedServer()
    await after.listen(socket_path())
    server.peers[0].shut_down()
    with pytest.raises(UnavailableError):
        await poll
    assert (await connection.request("GET", "/v1/")).code == 200
    assert (server.requests, after.requests) == (["GET /v1/", "GET /v1/changes"], ["GET /v1/"])
    await after.close()


async def test_closing_ends_a_request_under_way_as_unavailable_and_sends_it_no_more(
    server: ScriptedServer, connection: ControllerConnection
) -> None:
    server.answer = server.stay_silent
    waiting = asyncio.ensure_future(connection.request("GET", "/v1/"))
    await eventually(lambda: bool(server.requests))
    connection.close()
    with pytest.raises(UnavailableError):
        await waiting
    assert len(server.requests) == 1

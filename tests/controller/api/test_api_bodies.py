"""Bodies that are too large or too deep: a refusal in the one form of all errors, and the next request is served."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any

from jupyter_smx import request_body
from jupyter_smx.model.spec.job_spec import MAX_SPEC_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from serving import World

LARGE = 60 * 2**20
RULE = "The maximum is 5.0 MiB."
PIECE = b"x" * 2**16


def exchange(path: Path, header: str, pieces: Iterable[bytes] = ()) -> tuple[bytes, dict[str, Any]]:
    """Send a request and give the first line of the answer and its body."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        connection.sendall(f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
        for piece in pieces:
            connection.sendall(piece)
        with connection.makefile("rb") as answer:
            status = answer.readline().strip()
            length = 0
            while line := answer.readline().strip().lower():
                length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
            return status, json.loads(answer.read(length))


async def test_a_large_body_is_refused_with_the_limit_and_the_connection_goes_on(world: World) -> None:
    answer = await world.ask("POST", "/v1/jobs", b" " * LARGE)
    assert answer.status == 413
    body = answer.json()
    assert (body["code"], body["field"], body["rule"]) == ("RequestTooLarge", "body", RULE)
    assert body["message"] == "The request has a body of 60.0 MiB."
    assert (await world.ask("GET", "/v1/jobs")).status == 200


async def test_the_answer_comes_before_the_body(world: World) -> None:
    status, body = await asyncio.to_thread(exchange, world.socket, f"Content-Length: {LARGE}")
    assert (status, body["rule"]) == (b"HTTP/1.1 413 Request Entity Too Large", RULE)


async def test_a_body_without_end_is_refused_before_it_is_sent(world: World) -> None:
    length = 10 * request_body.MAX_DROPPED
    status, body = await asyncio.to_thread(exchange, world.socket, f"Content-Length: {length}")
    assert (status, body["rule"]) == (b"HTTP/1.1 413 Request Entity Too Large", RULE)


async def test_a_client_that_asks_first_is_refused_and_not_asked_to_continue(world: World) -> None:
    header = f"Content-Length: {LARGE}\r\nExpect: 100-continue"
    status, body = await asyncio.to_thread(exchange, world.socket, header)
    assert (status, body["rule"]) == (b"HTTP/1.1 413 Request Entity Too Large", RULE)


async def test_a_body_in_chunks_is_refused_when_it_is_above_the_limit(world: World) -> None:
    count = MAX_SPEC_BYTES // len(PIECE) + 1
    chunks = (b"%x\r\n%s\r\n" % (len(PIECE), PIECE) for _ in range(count))
    status, body = await asyncio.to_thread(exchange, world.socket, "Transfer-Encoding: chunked", chunks)
    assert (status, body["rule"]) == (b"HTTP/1.1 413 Request Entity Too Large", RULE)


async def test_a_deep_body_is_refused_with_a_sentence(world: World) -> None:
    for text in (b"[" * 200_000, b'{"id": "a", "spec": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"):
        answer = await world.ask("POST", "/v1/jobs", text)
        assert (answer.status, answer.json()["code"]) == (400, "ValidationException")

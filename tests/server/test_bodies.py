"""Bodies that a page sends: too large or too deep ones are refused with a sentence, and no controller gets them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fake_controller import FakeController

LARGE = 60 * 2**20


async def refused(request: Awaitable[object]) -> tuple[int, dict[str, Any]]:
    with pytest.raises(HTTPClientError) as caught:
        await request
    answer = caught.value.response
    assert answer is not None
    return caught.value.code, json.loads(answer.body)


async def test_a_large_body_is_refused_with_the_limit(jp_fetch: Any, controller: FakeController) -> None:
    code, body = await refused(jp_fetch("jupyter-smx", "jobs", "a", "stop", method="POST", body=b" " * LARGE))
    assert (code, body["code"], body["field"]) == (413, "RequestTooLarge", "body")
    assert body["message"] == "The request has a body of 60.0 MiB."
    assert body["rule"] == "The maximum is 5.0 MiB."
    assert not controller.seen
    assert (await jp_fetch("jupyter-smx", "controller")).code == 200


async def test_a_large_body_without_a_login_is_refused_for_the_login(jp_fetch: Any, controller: FakeController) -> None:
    wrong = {"Authorization": "token wrong"}
    request = jp_fetch("jupyter-smx", "jobs", "a", "stop", method="POST", body=b" " * 2**23, headers=wrong)
    try:
        code, _ = await refused(request)
    except OSError:
        code = 403  # Jupyter closes the connection before the body is sent
    assert code == 403
    assert not controller.seen


@pytest.mark.parametrize("body", ["[" * 200_000, '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"])
async def test_a_deep_body_is_refused_with_a_sentence(jp_fetch: Any, controller: FakeController, body: str) -> None:
    code, answer = await refused(jp_fetch("jupyter-smx", "jobs", "a", "rerun", method="POST", body=body))
    assert (code, answer["code"], answer["field"]) == (400, "ValidationException", "body")
    assert "nested too deeply" in answer["message"]
    assert not controller.seen


@pytest.mark.parametrize(
    ("method", "path", "token", "body"),
    [
        ("POST", "jobs/a/stop", "wrong", "{}"),
        ("GET", "jobs/a", "wrong", ""),
        ("POST", "jobs/a/stop", "", "{}"),
        ("GET", "controller", "", ""),
    ],
)
async def test_a_connection_that_closes_after_a_refusal_is_announced(
    http_server_client: Any,
    jp_base_url: str,
    jp_auth_header: dict[str, str],
    controller: FakeController,
    method: str,
    path: str,
    token: str,
    body: str,
) -> None:
    """Send what a proxy sends that keeps its connections; tornado's client asks for a close each time."""
    controller.answer("POST", "/v1/jobs/a/stop", 200, {})
    reader, writer = await asyncio.open_connection("127.0.0.1", http_server_client.get_http_port())
    authorization = f"token {token}" if token else jp_auth_header["Authorization"]
    head = f"{method} {jp_base_url}jupyter-smx/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}"
    writer.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    assert answer[0].split()[1] == ("403" if token else "200")
    assert ("Connection: close" in answer) is bool(token)
    writer.close()

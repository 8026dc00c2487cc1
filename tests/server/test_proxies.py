"""The server behind a reverse proxy that removes headers, blocks all but GET and POST, and has a short read timeout."""

from __future__ import annotations

import json
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from fake_controller import Answer
from small_proxy import SmallProxy
from tornado.httpclient import AsyncHTTPClient, HTTPResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fake_controller import FakeController

READ_TIMEOUT = 2.0
LOG = b"\x1b[31mepoch 1\xff\r\n{}\n"
CURSOR = {
    "offset": len(LOG),
    "total": 90,
    "final": False,
    "host": "algo-1",
    "hosts": ["algo-1", "algo-2"],
    "attempt": 1,
    "attempts": 2,
}
HEADERS = {
    "X-Smx-Offset": str(len(LOG)),
    "X-Smx-Total": "90",
    "X-Smx-Final": "0",
    "X-Smx-Host": "algo-1",
    "X-Smx-Hosts": "algo-1,algo-2",
    "X-Smx-Attempt": "1",
    "X-Smx-Attempts": "2",
}


@pytest_asyncio.fixture
async def ask(http_server_client: Any, jp_base_url: str, jp_auth_header: dict[str, str]) -> AsyncIterator[Any]:
    """Send a request to a route through the proxy."""
    proxy = SmallProxy(http_server_client.get_http_port(), read_timeout=READ_TIMEOUT)
    client = AsyncHTTPClient(force_instance=True)

    async def send(method: str, path: str, *, body: str | None = None, with_token: bool = True) -> HTTPResponse:
        return await client.fetch(
            f"{proxy.url}{jp_base_url}jupyter-smx/{path}",
            method=method,
            headers=jp_auth_header if with_token else {},
            body=body,
            allow_nonstandard_methods=True,
            raise_error=False,
        )

    yield send
    client.close()
    await proxy.close()


async def test_read_log_without_headers_has_the_cursor_in_the_body(ask: Any, controller: FakeController) -> None:
    controller.answers["GET", "/v1/jobs/a/logs"] = Answer(200, LOG, HEADERS)
    answer = await ask("GET", "jobs/a/logs?offset=0&cursor=body")
    assert not [name for name in answer.headers if name.lower().startswith("x-")]
    line, _, content = answer.body.partition(b"\n")
    assert (json.loads(line), content) == (CURSOR, LOG)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert controller.seen[-1].query == {"offset": "0"}


async def test_read_log_of_an_unknown_job_has_no_cursor(ask: Any, controller: FakeController) -> None:
    controller.refuse("GET", "/v1/jobs/a/logs", 404, "ResourceNotFound", "No job is called 'a'.")
    answer = await ask("GET", "jobs/a/logs?offset=0&cursor=body")
    assert (answer.code, json.loads(answer.body)["code"]) == (404, "ResourceNotFound")


async def test_controller_state_without_headers_has_clock_and_version_in_the_body(
    ask: Any, controller: FakeController
) -> None:
    await assert_clock_and_version(ask, is_running=True)
    await controller.close()
    await assert_clock_and_version(ask, is_running=False)


async def assert_clock_and_version(ask: Any, *, is_running: bool) -> None:
    answer = await ask("GET", "controller")
    assert "X-Smx-Now" not in answer.headers
    state = json.loads(answer.body)
    assert (state["running"], state["server_version"]) == (is_running, version("jupyter-smx"))
    assert abs(state["now"] - time.time()) < 60


@pytest.mark.parametrize(
    ("method", "path", "post_path", "body"),
    [
        ("DELETE", "jobs/a", "jobs/a/delete", None),
        ("PATCH", "pools/a", "pools/a/extend", '{"keep_alive": 900}'),
        ("DELETE", "pools/a", "pools/a/release", None),
    ],
)
async def test_methods_that_the_proxy_blocks_have_a_path_for_post(
    ask: Any, controller: FakeController, method: str, path: str, post_path: str, body: str | None
) -> None:
    controller.answer(method, f"/v1/{path}", 204 if post_path == "jobs/a/delete" else 200, {})
    assert (await ask(method, path, body=body)).code == 405
    assert controller.seen == []
    assert (await ask("POST", post_path, body=body or "", with_token=False)).code == 403
    assert controller.seen == []
    assert (await ask("POST", post_path, body=body or "")).code in {200, 204}
    (seen,) = controller.seen
    assert (seen.method, seen.path, seen.body) == (method, f"/v1/{path}", (body or "").encode())


async def test_a_log_without_news_answers_within_the_read_timeout_if_the_wait_is_shorter(
    ask: Any, controller: FakeController
) -> None:
    controller.answers["GET", "/v1/jobs/a/logs"] = Answer(200, b"", {**HEADERS, "X-Smx-Offset": "90"}, waits=True)
    begun = time.monotonic()
    cut = await ask("GET", "jobs/a/logs?offset=90&wait=20&cursor=body")
    seconds = time.monotonic() - begun
    assert (cut.code, cut.body[:6]) == (504, b"<html>")
    assert READ_TIMEOUT <= seconds < 20
    # The page waits half as long as the connection lasted: src/log/readTimeout.ts.
    answer = await ask("GET", f"jobs/a/logs?offset=90&wait={seconds / 2:.1f}&cursor=body")
    assert (answer.code, json.loads(answer.body)) == (200, {**CURSOR, "offset": 90})

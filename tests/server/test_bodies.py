"""Bodies that a page sends: too large or too deep ones are refused with a sentence, and no controller gets them."""

from __future__ import annotations

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

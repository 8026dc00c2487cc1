"""What a browser does at the server: it logs in, and asks for a route."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError
from tornado.httputil import parse_cookie

if TYPE_CHECKING:
    from routes import Route


async def status_of(fetch: Any, route: Route, headers: dict[str, str]) -> int:
    try:
        answer = await fetch(
            "jupyter-smx",
            route.path,
            method=route.verb,
            body=route.body,
            headers=headers,
            allow_nonstandard_methods=True,
        )
    except HTTPClientError as error:
        return error.code
    return answer.code


async def controller_state(fetch: Any) -> dict[str, Any]:
    """Return the state of the controller without what the server says of itself."""
    state = json.loads((await fetch("jupyter-smx", "controller")).body)
    own = {"now", "server_version", "records_id", "aws_url"}
    return {name: value for name, value in state.items() if name not in own}


async def logged_in(fetch: Any, app: Any) -> dict[str, str]:
    """Log in as a browser does, and give its cookies."""
    with pytest.raises(HTTPClientError) as redirect:
        await fetch(
            "login",
            params={"token": app.identity_provider.token},
            headers={"Authorization": ""},
            follow_redirects=False,
        )
    assert redirect.value.code == 302
    lines = redirect.value.response.headers.get_list("Set-Cookie")
    pairs = [parse_cookie(line.split(";", 1)[0]) for line in lines]
    # A page of the server sets this one; only a page of the server can read it.
    return {name: value for pair in pairs for name, value in pair.items()} | {"_xsrf": "0123456789abcdef"}

"""Number 28 of the catalogue at the Jupyter server: no page of another origin, or led here by a trick, uses a route."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from browser import logged_in, status_of
from fake_controller import job
from routes import ROUTES, Route
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

from jupyter_smx.server import routes as served

if TYPE_CHECKING:
    from fake_controller import FakeController

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EVIL = "evil.example"


def test_every_handler_of_the_table_is_looked_at_here() -> None:
    for pattern, _ in served.ROUTES:
        assert any(re.fullmatch(pattern, f"/jupyter-smx/{route.path}") for route in ROUTES), pattern


def test_no_route_is_a_websocket_which_no_rule_of_one_origin_protects() -> None:
    assert [handler for _, handler in served.ROUTES if issubclass(handler, WebSocketHandler)] == []
    assert all(issubclass(handler, RequestHandler) for _, handler in served.ROUTES)


async def test_a_name_that_leads_here_by_a_trick_is_refused_with_every_verb_even_with_the_token(
    jp_fetch: Any, controller: FakeController
) -> None:
    """DNS rebinding: for the browser, this server has the page's own origin."""
    await controller.happen(job())
    answer_all(controller)
    for path, verb in itertools.product(sorted({route.path for route in ROUTES}), VERBS):
        tried = Route(verb=verb, path=path, upstream="", body="{}" if verb in {"POST", "PUT", "PATCH"} else None)
        assert await status_of(jp_fetch, tried, {"Host": EVIL}) == 403, str(tried)
        assert controller.seen == [], str(tried)


@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_a_page_elsewhere_gets_nothing_with_the_users_cookie_whatever_it_sends(
    kind: str, jp_fetch: Any, jp_serverapp: Any, controller: FakeController
) -> None:
    await controller.happen(job())
    answer_all(controller)
    cookies = await logged_in(jp_fetch, jp_serverapp)
    page = {
        "Authorization": "",
        "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
        "Origin": f"https://{EVIL}",
        "Referer": f"https://{EVIL}/page",
        "Sec-Fetch-Site": "cross-site",
        "Content-Type": kind,
    }
    # Even a page that guessed the XSRF token is refused.
    for route, guess in itertools.product(ROUTES, ({}, {"X-XSRFToken": "guessed"})):
        # Jupyter answers 404 as if the route did not exist, and 400 to a form that it cannot read.
        assert await status_of(jp_fetch, route, page | guess) in {400, 403, 404}, (str(route), guess)
        assert controller.seen == [], str(route)


def answer_all(controller: FakeController) -> None:
    """Let the controller answer each route, if the server asked it."""
    for route in ROUTES:
        controller.answer(route.upstream_verb or route.verb, route.upstream, 200, {})

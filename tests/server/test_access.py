"""Permissions of users: authentication, authorisation and XSRF on every route and verb."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest
from browser import logged_in, status_of
from fake_controller import job
from jupyter_server.auth import Authorizer
from jupyter_server.serverapp import _has_tornado_web_authenticated
from routes import ROUTES

from jupyter_smx.server import routes as served

if TYPE_CHECKING:
    from fake_controller import FakeController
    from traitlets.config import Config

WRITING = [route for route in ROUTES if route.verb != "GET"]


class Clerk(Authorizer):
    """Records each authorisation request, and refuses it if the test says so."""

    asked: list[tuple[str, str]] = []  # noqa: RUF012 - one list for the server's instance and the test
    refuse = False

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        del handler, user
        self.asked.append((action, resource))
        return not self.refuse


@pytest.fixture
def clerk(jp_server_config: Config) -> type[Clerk]:
    Clerk.asked.clear()
    Clerk.refuse = False
    jp_server_config.ServerApp.authorizer_class = Clerk
    return Clerk


def test_the_table_of_routes_has_every_verb_of_every_handler() -> None:
    verbs = {
        (pattern, verb.upper())
        for pattern, handler in served.ROUTES
        for verb in ("get", "post", "patch", "delete", "put")
        if verb in vars(handler)
    }
    tested = {
        (pattern, route.verb)
        for pattern, _ in served.ROUTES
        for route in ROUTES
        if re.fullmatch(pattern, f"/jupyter-smx/{route.path}")
    }
    assert tested == verbs


def test_each_verb_asks_for_a_user_by_itself_whatever_the_server_is_configured_to_do() -> None:
    verbs = [
        (handler.__name__, verb, getattr(handler, verb))
        for _, handler in served.ROUTES
        for verb in ("get", "post", "patch", "delete", "put")
        if verb in vars(handler)
    ]
    assert len(verbs) >= len(served.ROUTES), "each handler answers at least one of them itself"
    assert [(name, verb) for name, verb, method in verbs if not _has_tornado_web_authenticated(method)] == []


async def test_nobody_gets_in_without_the_right_token(jp_fetch: Any, controller: FakeController) -> None:
    wrong = ("", "token wrong", "Bearer wrong", "Basic d3Jvbmc6d3Jvbmc=")
    for route, credential in itertools.product(ROUTES, wrong):
        controller.answer(route.upstream_verb or route.verb, route.upstream, 200, {})
        assert await status_of(jp_fetch, route, {"Authorization": credential}) == 403, (str(route), credential)
        assert controller.seen == [], (str(route), credential)


async def test_the_authorizer_is_asked_about_jupyter_smx_and_its_no_is_final(
    clerk: type[Clerk], jp_fetch: Any, controller: FakeController
) -> None:
    clerk.refuse = True
    for route in ROUTES:
        clerk.asked.clear()
        assert await status_of(jp_fetch, route, {}) == 403, str(route)
        assert clerk.asked == [("read" if route.verb == "GET" else "write", "jupyter_smx")], str(route)
        assert controller.seen == [], str(route)


async def test_a_page_elsewhere_cannot_write_with_the_users_cookie(
    jp_fetch: Any, jp_serverapp: Any, controller: FakeController
) -> None:
    await controller.happen(job())
    cookies = await logged_in(jp_fetch, jp_serverapp)
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    without = {"Authorization": "", "Cookie": header}
    for route in WRITING:
        controller.answer(route.upstream_verb or route.verb, route.upstream, 200, {})
        controller.seen.clear()
        assert await status_of(jp_fetch, route, without) == 403, str(route)
        assert await status_of(jp_fetch, route, without | {"X-XSRFToken": "guessed"}) == 403, str(route)
        assert controller.seen == [], str(route)
        assert await status_of(jp_fetch, route, without | {"X-XSRFToken": cookies["_xsrf"]}) == 200, str(route)

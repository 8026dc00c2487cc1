"""Build the routes under ``/jupyter-smx/`` and their handlers from the table of routes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.model.http_routes import SERVER_PREFIX, served_routes, url_pattern
from jupyter_smx.server.handlers.actions import ACTIONS
from jupyter_smx.server.handlers.base import ControllerHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from jupyter_smx.model.http_routes import Route


def make_handlers(table: Iterable[Route[Any]]) -> list[tuple[str, type[ControllerHandler]]]:
    """Make a handler for each path of a table; tornado refuses the other methods of a path with 405.

    A route with a ``post_path`` is also served by POST there. The controller receives the method of the route.
    """
    verbs: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in table:
        verbs[route.path][route.method.lower()] = _verb(route)
        if route.proxy is not None and route.proxy.post_path:
            verbs[route.proxy.post_path]["post"] = _verb(route)
    return [
        (
            url_pattern(SERVER_PREFIX, path),
            cast("type[ControllerHandler]", type("RouteHandler", (ControllerHandler,), methods)),
        )
        for path, methods in verbs.items()
    ]


def _verb(route: Route[Any]) -> Callable[..., Awaitable[None]]:
    action = ACTIONS.get(route.action, ControllerHandler.pass_on)
    marks_read = route.proxy is not None and route.proxy.marks_read

    # A function for each row: `authorized` keeps the right (read or write) that its first request needed.
    @authenticated
    @authorized
    async def respond(self: ControllerHandler, *_: str) -> None:
        self.route = route
        if marks_read:
            self.smx.mark_read()
        await self.run_guarded(lambda: action(self))

    return cast("Callable[..., Awaitable[None]]", respond)


ROUTES = make_handlers(served_routes())

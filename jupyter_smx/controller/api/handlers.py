"""Serve the controller's HTTP API on its unix socket: one handler for each path of the table of routes."""

from __future__ import annotations

import logging
from collections import defaultdict
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError

from jupyter_smx.controller.api.actions import ACTIONS
from jupyter_smx.controller.api.base import ApiHandler
from jupyter_smx.model.http_routes import CONTROLLER_PREFIX, ROUTES, url_pattern
from jupyter_smx.request_body import MAX_BODY, MAX_DROPPED

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable

    from tornado.web import RequestHandler

    from jupyter_smx.controller.api.base import HandlerServices
    from jupyter_smx.model.http_routes import Action, Route

_log = logging.getLogger(__name__)

BODY_WITHIN = 60.0
"""Seconds in which a request's body must be here; on a unix socket it takes milliseconds."""


class ApiServer(HTTPServer):
    """HTTP server that counts its connections."""

    connections = 0

    def replace_socket(self, before: socket.socket, after: socket.socket) -> None:
        """Accept connections on another socket and close the one before; open connections stay."""
        self.add_socket(after)
        number = before.fileno()
        del self._sockets[number]
        self._handlers.pop(number)()
        before.close()

    def handle_stream(self, stream: Any, address: Any) -> None:
        """Take a new connection."""
        self.connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Record the end of a connection."""
        super().on_close(server_conn)
        self.connections -= 1


def make_server(services: HandlerServices, idle_connection: float) -> ApiServer:
    """Make the server; the caller adds the socket.

    A connection without a request for ``idle_connection`` seconds is closed: a kernel keeps its own open for the next
    cell, and must not keep this process alive by it.
    """
    application = Application(
        make_handlers(ROUTES),
        default_handler_class=NotFoundHandler,
        log_function=_log_request,
        services=services,
    )
    return ApiServer(
        application,
        max_body_size=MAX_DROPPED,
        max_buffer_size=2 * MAX_BODY,
        idle_connection_timeout=idle_connection,
        body_timeout=BODY_WITHIN,
    )


class NotFoundHandler(ApiHandler):
    """Every other address."""

    def prepare(self) -> None:
        """Answer that the path does not exist."""
        super().prepare()
        raise HTTPError(404, f"There is no route {self.request.path}.")


def make_handlers(table: Iterable[Route[Action]]) -> list[tuple[str, type[ApiHandler]]]:
    """Make a handler for each path of a table; tornado refuses the other methods of a path with 405."""
    verbs: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in table:
        verbs[route.path][route.method.lower()] = _verb(route)
    return [
        (url_pattern(CONTROLLER_PREFIX, path), cast("type[ApiHandler]", type("RouteHandler", (ApiHandler,), methods)))
        for path, methods in verbs.items()
    ]


def _verb(route: Route[Action]) -> Callable[..., Awaitable[None]]:
    action = ACTIONS[route.action]

    async def respond(self: ApiHandler, *_: str) -> None:
        self.route = route
        result = action(self)
        await self.write_answer(await result if isawaitable(result) else result)

    return respond


def _log_request(handler: RequestHandler) -> None:
    took = handler.request.request_time() * 1000
    _log.debug("%s %s %d %.1f ms", handler.request.method, handler.request.path, handler.get_status(), took)

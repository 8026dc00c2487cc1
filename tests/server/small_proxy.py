"""A reverse proxy in the way of a browser: it removes headers, blocks methods, and ends silent requests."""

from __future__ import annotations

from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.simple_httpclient import HTTPTimeoutError
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

KEPT_HEADERS = ("Content-Type", "Content-Disposition", "Date", "Location", "Set-Cookie")
"""Headers of an answer that the proxy knows; it removes all others."""


class SmallProxy:
    """Listens in front of the server on ``port``, with ``read_timeout`` seconds for each answer."""

    def __init__(self, port: int, *, read_timeout: float) -> None:
        self.target = f"http://127.0.0.1:{port}"
        self.read_timeout = read_timeout
        self.client = AsyncHTTPClient(force_instance=True)
        socket, own_port = bind_unused_port()
        self.url = f"http://127.0.0.1:{own_port}"
        self._server = HTTPServer(Application([(r".*", _Handler, {"proxy": self})]))
        self._server.add_socket(socket)

    async def close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()
        self.client.close()


class _Handler(RequestHandler):
    SUPPORTED_METHODS = ("GET", "POST")

    def initialize(self, proxy: SmallProxy) -> None:
        self.proxy = proxy

    def check_xsrf_cookie(self) -> None:
        """Leave that to the server."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        del kwargs
        self.finish(f"<html><h1>{status_code}</h1></html>")

    async def forward(self) -> None:
        request = self.request
        sent = HTTPRequest(
            self.proxy.target + (request.uri or ""),
            method=request.method or "GET",
            headers=request.headers,
            body=request.body or None,
            allow_nonstandard_methods=True,
            follow_redirects=False,
            request_timeout=self.proxy.read_timeout,
        )
        try:
            answer = await self.proxy.client.fetch(sent, raise_error=False)
        except HTTPTimeoutError:
            self.send_error(504)
            return
        self.set_status(answer.code)
        for name in KEPT_HEADERS:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        self.finish(answer.body) if answer.code != 204 else self.finish()

    get = post = forward

"""Read the body of an HTTP request up to a limit, for the controller's socket and the server extension alike."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.http1connection import HTTP1Connection
from tornado.web import RequestHandler, stream_request_body

from jupyter_smx.model.errors import RequestTooLargeError
from jupyter_smx.model.spec.job_spec import MAX_SPEC_BYTES
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable

MAX_BODY = MAX_SPEC_BYTES
MAX_DROPPED = 100 * 2**20
"""Bytes of a refused body that are read and dropped.

A client that still sends sees a reset connection instead of the answer if the connection is closed at once.
"""


def too_large_error(size: int) -> RequestTooLargeError:
    """Say that a body of ``size`` bytes, or of more than the limit for 0, is not read."""
    return RequestTooLargeError(
        f"The request has {f'a body of {format_size(size)}' if size else 'too large a body'}.",
        field="body",
        value=size or "",
        rule=f"The maximum is {format_size(MAX_BODY)}.",
        cure="Pass data with --input or --send, and code with --source-dir.",
    )


@stream_request_body
class BoundedBodyHandler(RequestHandler):
    """Handler that keeps the body of its request, and refuses one above the limit before it is read.

    A subclass calls :meth:`check_body_size` at the end of ``prepare``, when it has checked the user.
    """

    _received = _announced = 0
    _is_refused = False
    _answer: Callable[[], None] | None = None
    """Sends an error when the body is read: a connection that is closed before may lose the answer."""

    def check_body_size(self) -> None:
        """Answer 413 if the request announces a body that is too large."""
        self._chunks: list[bytes] = []
        if self._finished:
            return
        self._announced = self._announced_size()
        if self._announced <= MAX_BODY:
            return
        self._refuse(self._announced)
        waits_for_permission = "Expect" in self.request.headers
        if waits_for_permission or self._announced > MAX_DROPPED:
            self.finish()

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Keep a piece of the body, or drop it if the request was refused."""
        self._received += len(chunk)
        if self._answer is not None:
            if self._received >= self._announced:
                self._answer()
        elif self._is_refused:
            if self._received >= self._announced:
                self.finish()
        elif self._received > MAX_BODY:  # sent in chunks, so without a length
            self._refuse(0)
            self.finish()
        else:
            self._chunks.append(chunk)
        return None

    def send_error(self, status_code: int = 500, **context: Any) -> None:
        """Answer with an error, behind a body that is still on its way."""
        self._announced = self._announced_size()
        if self._received < self._announced <= MAX_BODY and self._answer is None:
            self._answer = partial(super().send_error, status_code, **context)
        else:
            super().send_error(status_code, **context)

    def flush(self, include_footers: bool = False) -> Future[None]:
        """Announce the close of the connection if the body is not read yet, since tornado closes it then.

        Otherwise a proxy with a pool of connections, as JupyterHub's, sends the next request on it and answers 503.
        """
        if not self._headers_written and not self.request._body_future.done():  # noqa: SLF001 - nothing public says it
            self.set_header("Connection", "close")
        return super().flush(include_footers)

    def _announced_size(self) -> int:
        """Return the length that the request names; tornado refuses one that is no number, but only after this."""
        length = self.request.headers.get("Content-Length", "0")
        return int(length) if length.isdecimal() and length.isascii() else 0

    def received_body(self) -> bytes:
        """Give the body of the request."""
        return b"".join(self._chunks)

    def _refuse(self, size: int) -> None:
        """Send the whole answer; the connection stays open for the rest of the body."""
        self._is_refused = True
        self._chunks.clear()
        connection = self.request.connection
        if isinstance(connection, HTTP1Connection):
            # Otherwise tornado adds an empty 400 to the answer.
            connection.set_max_body_size(max(size, MAX_DROPPED))
        answer = msgspec.json.encode(too_large_error(size).body())
        self.set_status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", str(len(answer)))
        self.write(answer)
        self.flush()

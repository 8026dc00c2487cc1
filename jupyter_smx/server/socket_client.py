"""HTTP/1.1 over a unix socket, by connections that stay open for the next request; tornado's client closes each one."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httpclient import HTTPResponse
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream, StreamClosedError
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError

from jupyter_smx import controller_launch
from jupyter_smx.data_folder.file_identity import SocketIdentity, read_socket_identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tornado.httpclient import HTTPRequest

IDLE_LIMIT = 1.0
"""Seconds until an unused connection is closed, by this side: a controller with an open one does not count as idle, and
closes it after 5 s, at which moment a request on it would be lost."""

_NO_LIMIT = 1 << 62
"""Bytes; an artefact is passed on in chunks, so its size costs no memory."""
_PARAMETERS = HTTP1ConnectionParameters(max_body_size=_NO_LIMIT)
_METHODS_WITH_BODY = ("PATCH", "POST", "PUT")


@dataclass(frozen=True, eq=False)
class _Connection:
    """An open connection, and where it leads to."""

    stream: IOStream
    path: Path
    file: SocketIdentity

    def is_usable(self) -> bool:
        """Return False if a request on this connection would be lost, or reach another process than a new one would."""
        if self.stream.closed():
            return False
        try:
            if read_socket_identity(self.path) != self.file:
                return False
            self.stream.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False  # closed by the other side, or with an answer that no request waits for


class SocketClient:
    """Sends requests to the process that listens at an address, each by a connection that no other request uses then.

    ``locate`` returns the address; it is called for each new connection. ``concurrent`` is the maximum of requests at
    once; more of them wait.
    """

    def __init__(self, locate: Callable[[], str], concurrent: int, idle_limit: float = IDLE_LIMIT) -> None:
        self._locate = locate
        self._slots = asyncio.Semaphore(concurrent)
        self._idle_limit = idle_limit
        self._idle: dict[_Connection, asyncio.TimerHandle] = {}
        self._active: set[IOStream] = set()
        self._is_closed = False

    async def fetch(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request once and return its answer of any status.

        A connection whose request fails, or is cancelled, is closed: half an answer may still arrive on it.

        :raises FileNotFoundError, NotADirectoryError, ConnectionRefusedError: no process listens.
        :raises HTTPStreamClosedError, ConnectionResetError, BrokenPipeError: the answer broke off.
        :raises HTTPTimeoutError: the answer did not come in time.
        """
        await self._wait_for_slot(request)
        try:
            connection = self._take() or await self._open(request)
            answer = None
            self._active.add(connection.stream)
            try:
                answer = await _exchange(connection.stream, request)
            finally:
                self._active.discard(connection.stream)
                if answer is not None and _stays_open(answer) and not self._is_closed:
                    self._store(connection)
                else:
                    connection.stream.close()
            return answer
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close all connections; requests under way end as if the other side had closed theirs."""
        self._is_closed = True
        for timer in self._idle.values():
            timer.cancel()
        for stream in (*(each.stream for each in self._idle), *self._active):
            stream.close()
        self._idle.clear()

    async def _wait_for_slot(self, request: HTTPRequest) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # at once, without the task that a time limit needs
            return
        try:
            await asyncio.wait_for(self._slots.acquire(), request.request_timeout or request.connect_timeout)
        except asyncio.TimeoutError:
            raise HTTPTimeoutError("Timeout in request queue") from None

    def _take(self) -> _Connection | None:
        """Return the connection that was used last, if one is usable; others are closed when their time is over."""
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.is_usable():
                return connection
            connection.stream.close()
        return None

    async def _open(self, request: HTTPRequest) -> _Connection:
        controller_launch.require_unix_sockets()
        path = Path(self._locate())
        file = read_socket_identity(path)
        stream = IOStream(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        timer = _close_after(stream, request.connect_timeout, "Timeout while connecting")
        is_open = False
        try:
            await stream.connect(str(path))
            is_open = True
        except StreamClosedError as error:
            raise _reason(error) from error
        finally:
            if timer is not None:
                timer.cancel()
            if not is_open:
                stream.close()
        return _Connection(stream, path, file)

    def _store(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(self._idle_limit, self._end_idle, connection)

    def _end_idle(self, connection: _Connection) -> None:
        del self._idle[connection]
        connection.stream.close()


async def _exchange(stream: IOStream, request: HTTPRequest) -> HTTPResponse:
    """Send a request and read its answer to the end."""
    parts = urlsplit(request.url)
    headers = HTTPHeaders({"Host": parts.netloc})
    headers.update(request.headers)
    if request.body is not None or request.method in _METHODS_WITH_BODY:
        headers["Content-Length"] = str(len(request.body or b""))
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    http, reader = HTTP1Connection(stream, is_client=True, params=_PARAMETERS), _AnswerReader(request)
    timer = _close_after(stream, request.request_timeout, "Timeout during request")
    try:
        http.write_headers(RequestStartLine(request.method, target, ""), headers, chunk=request.body)
        http.finish()
        await http.read_response(reader)
    except StreamClosedError as error:
        raise _reason(error) from error
    finally:
        if timer is not None:
            timer.cancel()
    if not reader.is_complete or isinstance(stream.error, HTTPTimeoutError):
        # The answer is malformed, or its receiver took no more of it, or the time was over in a body without a length.
        raise stream.error or HTTPStreamClosedError("Connection closed")
    return reader.to_response()


class _AnswerReader(HTTPMessageDelegate):
    """Collects one answer, or passes its body on in chunks."""

    def __init__(self, request: HTTPRequest) -> None:
        self.is_complete = False
        self._request = request
        self._start_line = ResponseStartLine("", 0, "")
        self._headers = HTTPHeaders()
        self._body = BytesIO()

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """Take the head, and pass it on in lines."""
        self._start_line, self._headers = cast("ResponseStartLine", start_line), headers
        if self._request.header_callback is not None:
            self._request.header_callback("{} {} {}\r\n".format(*start_line))
            for name, value in headers.get_all():
                self._request.header_callback(f"{name}: {value}\r\n")
            self._request.header_callback("\r\n")

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Take a part of the body."""
        if self._request.streaming_callback is not None:
            return self._request.streaming_callback(chunk)
        self._body.write(chunk)
        return None

    def finish(self) -> None:
        """Take note of the end of the body."""
        self.is_complete = True

    def to_response(self) -> HTTPResponse:
        """Return the answer."""
        self._body.seek(0)
        return HTTPResponse(
            self._request,
            self._start_line.code,
            headers=self._headers,
            buffer=self._body,
            reason=self._start_line.reason,
        )


def _stays_open(answer: HTTPResponse) -> bool:
    """Return True if the other side reads another request from the connection of an answer."""
    return answer.headers.get("Connection", "").lower() != "close"


def _close_after(stream: IOStream, seconds: float | None, reason: str) -> asyncio.TimerHandle | None:
    """Close a stream after some seconds; None if there is no limit."""
    if not seconds:
        return None
    return asyncio.get_running_loop().call_later(seconds, stream.close, HTTPTimeoutError(reason))


def _reason(error: StreamClosedError) -> BaseException:
    """Return why a stream was closed, as tornado's own client raises it."""
    return error.real_error or HTTPStreamClosedError("Stream closed")

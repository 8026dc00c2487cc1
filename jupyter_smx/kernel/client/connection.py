"""One persistent HTTP connection over a unix socket."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx import controller_launch

if TYPE_CHECKING:
    from pathlib import Path


class Response(Struct, frozen=True):
    """An HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path
        self._parts: list[bytes] = []

    def connect(self) -> None:
        controller_launch.require_unix_sockets()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self.timeout)
        try:
            made.connect(controller_launch.socket_address(self._path))
        except BaseException:
            made.close()
            raise
        self.sock = made

    def send(self, data: Any) -> None:
        """Keep a part of a request until :meth:`send_all`: in two parts it wakes the other side twice."""
        self._parts.append(data)

    def send_all(self) -> None:
        """Send the request."""
        parts, self._parts = self._parts, []
        super().send(b"".join(parts))


class Connection:
    """A connection that is opened when it is first used, and again where the other side closed it meanwhile.

    Safe to share between threads (one request at a time) and across a fork (the child opens its own).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._http_connection: _UnixConnection | None = None
        self._pid = os.getpid()
        self._is_aborted = False

    def exchange(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        """Send one request once and read its answer, ``timeout`` seconds at most for each step.

        :raises FileNotFoundError, ConnectionRefusedError: no process listens.
        :raises OSError, http.client.HTTPException: the connection broke off, or was closed.
        """
        if self._pid != os.getpid():
            self._lock, self._http_connection, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            return self._exchange_once(method, target, body, timeout)

    def close(self) -> None:
        """Close the connection after the request that it is in; the next request opens one."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        kept, self._http_connection = self._http_connection, None
        if kept is not None:
            kept.close()

    def abort(self) -> None:
        """Break off the request that another thread is in, which gets an error at once; none is sent any more."""
        self._is_aborted = True
        kept = self._http_connection
        if kept is not None and kept.sock is not None:
            with contextlib.suppress(OSError):  # it was closed between the two lines
                kept.sock.shutdown(socket.SHUT_RDWR)

    def _exchange_once(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        try:
            kept = self._open(timeout)
            kept.request(method, target, body, {"Content-Type": "application/json"} if body else {})
            kept.send_all()
            # Left to its finalizer, close() would run there, and Python drops a Ctrl-C that arrives in a finalizer.
            with kept.getresponse() as response:
                return Response(response.status, dict(response.headers), response.read())
        except BaseException:
            # Half an answer may still arrive (after Ctrl-C, too), so no request can use this connection again.
            self._drop()
            raise

    def _is_stale(self) -> bool:
        """Return True if the other side closed the kept connection: a request on it would be lost without need."""
        kept = self._http_connection
        if kept is None or kept.sock is None:
            return False
        try:
            kept.sock.settimeout(0)  # else Python waits for the first byte
            kept.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True  # closed, or with an answer that no request waits for

    def _open(self, timeout: float) -> _UnixConnection:
        if self._is_stale():
            self._drop()
        kept = self._http_connection
        if kept is None:
            kept = self._http_connection = _UnixConnection(self._path, timeout)
        if kept.sock is None:
            kept.timeout = timeout
            kept.connect()
        else:
            kept.sock.settimeout(timeout)
        if self._is_aborted:  # checked once there is a socket: an earlier abort had none to shut down
            raise ConnectionAbortedError(errno.ECONNABORTED, "This connection was closed")
        return kept

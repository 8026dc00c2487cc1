"""HTTP over the controller's unix socket: the only connection between server extension and controller."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.iostream import StreamClosedError
from tornado.netutil import Resolver
from tornado.simple_httpclient import HTTPStreamClosedError, SimpleAsyncHTTPClient

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

Chunk = Callable[[bytes], Awaitable[None]]

_REQUEST_TIMEOUT = 30.0
"""Seconds that an answer may take beyond the wait that was asked for."""

_START_LIMIT = 20.0
"""Seconds that a controller may take until it listens."""

_RESTART_HINT = " and restart the Jupyter server. Then try again"

_CONCURRENT = 1000
"""Requests at once; each long poll of a log is one."""

_NO_LIMIT = 1 << 62
"""Bytes; an artefact is passed on in chunks, so its size costs no memory."""


class NoControllerError(UnavailableError):
    """Nobody listens, which is no trouble: a controller leaves when nothing is left to do."""


class _SocketResolver(Resolver):
    async def resolve(self, host: str, port: int, family: int = 0) -> list[tuple[int, Any]]:
        del host, port, family
        return [(socket.AF_UNIX, os.fspath(controller_launch.socket_path()))]


class ControllerConnection:
    """Sends requests to the controller and starts one when it is asked to."""

    def __init__(self) -> None:
        self._client: AsyncHTTPClient | None = None
        self._start_lock = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.problem: UnavailableError | None = None
        """Why the last start failed; None as soon as a controller answers, whoever started it."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        wait: float = 0.0,
        on_header: Callable[[str], None] | None = None,
        on_chunk: Chunk | None = None,
    ) -> HTTPResponse:
        """Send one request; an answer of any status is an answer. ``wait`` is the seconds of a long poll.

        A question whose answer breaks off is asked once more: a controller that leaves cuts the lines of who came last.
        A long poll is not: who follows a controller has to learn that it left.

        :raises NoControllerError: nobody listens.
        :raises UnavailableError: the answer broke off or did not come in time.
        """
        url = f"http://localhost{quote(path, safe='/%')}" + (f"?{urlencode(query)}" if query else "")
        request = HTTPRequest(
            url,
            method=method,
            body=body,
            headers={"Content-Type": "application/json"} if body is not None else None,
            allow_nonstandard_methods=True,
            follow_redirects=False,
            decompress_response=False,
            connect_timeout=_REQUEST_TIMEOUT,
            request_timeout=0 if on_chunk else wait + _REQUEST_TIMEOUT,
            header_callback=on_header,
            streaming_callback=on_chunk,
        )
        try:
            answer = await self._fetch(request, may_ask_again=method == "GET" and not (wait or on_chunk))
        except (HTTPClientError, OSError, StreamClosedError) as error:
            raise unavailable_error(error) from error
        self.problem = None
        return answer

    async def _fetch(self, request: HTTPRequest, *, may_ask_again: bool) -> HTTPResponse:
        client = self._open_client()
        try:
            return await client.fetch(request, raise_error=False)
        except (HTTPStreamClosedError, ConnectionResetError, BrokenPipeError):
            if not may_ask_again or self._client is not client:
                raise
        return await client.fetch(request, raise_error=False)

    async def ensure(self) -> None:
        """Start a controller unless one listens, and wait until it does.

        :raises UnavailableError: it did not come up.
        """
        async with self._start_lock:
            self.reap()
            try:
                await self._start()
            except UnavailableError as error:
                self.problem = error
                raise
            self.problem = None

    async def _start(self) -> None:
        if await asyncio.to_thread(controller_launch.is_listening):
            return
        try:
            self._process = await asyncio.to_thread(controller_launch.start_controller)
        except OSError as error:
            raise controller_launch_errors.start_error(error, then=_RESTART_HINT) from error
        if not await asyncio.to_thread(controller_launch.wait_ready, _START_LIMIT, self._process):
            raise controller_launch_errors.no_answer_error(then=_RESTART_HINT)

    def reap(self) -> None:
        """Take note of the end of a controller that this server started, so that no dead process stays behind."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None

    def close(self) -> None:
        """Close the client; requests under way end as unavailable."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.reap()

    def _open_client(self) -> AsyncHTTPClient:
        if self._client is None:
            self._client = SimpleAsyncHTTPClient(
                force_instance=True, resolver=_SocketResolver(), max_clients=_CONCURRENT, max_body_size=_NO_LIMIT
            )
        return self._client


def unavailable_error(error: BaseException) -> UnavailableError:
    """Say in a sentence why there was no answer."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | ConnectionRefusedError):
        return NoControllerError(
            "No controller is running.",
            rule="The controller exits when it is idle and starts with the next job.",
            cure="Run a %%train or %%process cell, or load earlier jobs in the panel.",
            transient=True,
        )
    return UnavailableError(
        f"The controller did not answer ({type(error).__name__}: {error}).",
        cure=f"Try again; if that does not help, read {controller_launch.log_path().name} in its data folder.",
        transient=True,
    )

"""HTTP over the controller's unix socket: the only connection between server extension and controller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlencode

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest, HTTPResponse
from tornado.iostream import StreamClosedError
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller_launch_errors import (
    ANSWER_LIMIT,
    NO_LISTENER,
    REPEAT_LIMIT,
    REPEAT_PAUSE,
    is_fenced,
)
from jupyter_smx.controller_start import ControllerStarter
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.server.socket_client import SocketClient

if TYPE_CHECKING:
    from collections.abc import Mapping

OnLost = Literal["raise", "repeat", "start"]
"""Reaction to a lost answer: an error; the same request again for a few seconds; or that, and a start of the controller
if none listens. A killed or replaced controller drops its connections, and ids make a repeated submission the
same job."""
Chunk = Callable[[bytes], Awaitable[None]]

_RESTART_HINT = " and restart the Jupyter server. Then try again"

NOTE_LIMIT = 5.0
"""Seconds of a start after which pages show that it continues."""

_CONCURRENT = 1000
"""Requests at once; each long poll of a log is one."""


LOST_CONNECTION = (HTTPStreamClosedError, ConnectionResetError, BrokenPipeError)
"""Errors of a request that may have been received."""


class NoControllerError(UnavailableError):
    """No controller listens, which is no fault: a controller exits when nothing is left to do."""


class _Submission(msgspec.Struct):
    id: str = ""


class _Tries:
    """Whether a controller may have received, and so executed, a request."""

    def __init__(self) -> None:
        self.may_have_been_received = False

    def note(self, error: Exception) -> None:
        """Take the error of one try."""
        if isinstance(error, (*LOST_CONNECTION, HTTPTimeoutError)):
            self.may_have_been_received = True

    def add_doubt(self, error: UnavailableError, body: bytes | None) -> UnavailableError:
        """Add that the job or array of a request may have been accepted; the same error for other requests."""
        if not (body and self.may_have_been_received):
            return error
        try:
            submitted = msgspec.json.decode(body, type=_Submission).id
        except (msgspec.DecodeError, RecursionError):
            return error  # of a page that sends nonsense
        return controller_launch_errors.add_doubt(error, submitted)


class ControllerConnection:
    """Sends requests to the controller and starts one when it is asked to."""

    def __init__(self) -> None:
        self._client: SocketClient | None = None
        self._start_lock = asyncio.Lock()
        self.starter = ControllerStarter(then=_RESTART_HINT)
        self.clock, self.sleep = time.monotonic, asyncio.sleep
        self.problem: UnavailableError | None = None
        """Why the last start failed; None as soon as a controller answers, also one that another process started."""

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
        on_lost: OnLost = "repeat",
    ) -> HTTPResponse:
        """Send one request; an answer of any status is an answer. ``wait`` is the seconds of a long poll.

        ``on_lost`` is the reaction to a lost answer. A long poll is never repeated: its caller follows one
        controller, and must get an error when that exits.

        :raises NoControllerError: no controller listens.
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
            connect_timeout=ANSWER_LIMIT,
            request_timeout=0 if on_chunk else wait + ANSWER_LIMIT,
            header_callback=on_header,
            streaming_callback=on_chunk,
        )
        tries = _Tries()
        try:
            answer = await self._fetch(request, "raise" if wait or on_chunk else on_lost, tries)
        except UnavailableError as error:
            raise tries.add_doubt(error, body) from error
        except (HTTPClientError, OSError, StreamClosedError) as error:
            tries.note(error)
            raise tries.add_doubt(unavailable_error(error, wait + ANSWER_LIMIT), body) from error
        self.problem = None
        return answer

    async def _fetch(self, request: HTTPRequest, on_lost: OnLost, tries: _Tries) -> HTTPResponse:
        client, until = self._open_client(), 0.0
        while True:
            try:
                answer = await client.fetch(request)
            except NO_LISTENER:
                if on_lost != "start" or self._is_over(client, until):
                    raise
                await self.ensure()
            except LOST_CONNECTION as error:
                tries.note(error)
                if on_lost == "raise" or self._is_over(client, until):
                    raise
            else:
                if on_lost == "raise" or not is_fenced(answer.code, answer.body) or self._is_over(client, until):
                    return answer
            until = until or self.clock() + REPEAT_LIMIT
            await self.sleep(REPEAT_PAUSE)

    def _is_over(self, client: SocketClient, until: float) -> bool:
        """Return True if a request is not sent again: its seconds are over, or this connection was closed meanwhile."""
        return self._client is not client or bool(until and self.clock() >= until)

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
        since = await asyncio.to_thread(self.starter.begin)
        # In short steps, because a server that ends waits for its threads.
        while not await asyncio.to_thread(self.starter.is_ready, since):
            pass

    def find_problem(self) -> UnavailableError | None:
        """Return why there is no controller: one is still starting, or the last start failed or is slow."""
        seconds = self.starter.seconds()
        if seconds is not None and NOTE_LIMIT <= seconds < controller_launch_errors.START_LIMIT:
            return controller_launch_errors.starting_error(seconds)
        return self.problem

    def reap(self) -> None:
        """Take note of the end of a controller that this server started, so that no dead process stays behind."""
        self.starter.reap()

    def close(self) -> None:
        """Close the client; requests under way end as unavailable."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.reap()

    def _open_client(self) -> SocketClient:
        if self._client is None:
            self._client = SocketClient(controller_launch.socket_address, _CONCURRENT)
        return self._client


def unavailable_error(error: BaseException, waited: float) -> UnavailableError:
    """Return in a sentence why there was no answer; ``waited`` is after how many seconds a silent one was given up."""
    if isinstance(error, HTTPTimeoutError):
        return controller_launch_errors.silent_error(waited)
    if isinstance(error, NO_LISTENER):
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

"""Requests that the daemon answers by a stream of JSON lines, such as the download and the build of an image.

They run in the event loop, each over a connection of its own. Docker's library would block a thread for the whole
time, and only the daemon could end it; closing the connection ends the work at the daemon, too.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from jupyter_smx.engines.docker.daemon.daemon_client import UNIX, error_message
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from jupyter_smx.engines.docker.daemon.daemon_info import DaemonInfo

_MAX_BYTES = 1 << 20
"""Bytes of a line, and of a piece of a request or of an answer."""
_OK = 200


class StreamError(Exception):
    """The daemon reported why it cannot do what it was asked for."""


class JsonStream:
    """Requests to one daemon. ``what`` is their purpose in errors, as ``the download of an image``.

    ``seconds`` is the time limit of a connection, and of a time without data; ``is_patient`` leaves the second one out.
    """

    def __init__(self, url: str, kind: DaemonInfo, what: str, seconds: float, *, is_patient: bool = False) -> None:
        self._url = url
        self._kind = kind
        self._what = what
        self._seconds = seconds
        self._patience = None if is_patient else seconds

    async def lines(
        self, head: bytes, body: IO[bytes] | None = None, on_sent: Callable[[int], None] = lambda _bytes: None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Send a request; yield the lines of the answer. ``on_sent`` receives the bytes of ``body`` that were sent.

        :raises StreamError: the daemon refused, or reported an error.
        :raises UnavailableError: it does not answer.
        """
        reader, writer = await self._connect()
        try:
            writer.write(head)
            if body is not None:
                # A daemon that refuses a request does not read it to its end: its answer is the reason.
                with suppress(ConnectionError):
                    await self._send(writer, body, on_sent)
            status, is_chunked = await self._head(reader)
            if status != _OK:
                raise StreamError(error_message(await self._with_timeout(reader.read(_MAX_BYTES))))
            waiting = b""
            async for piece in self._body_chunks(reader, is_chunked=is_chunked):
                *lines, waiting = (waiting + piece).split(b"\n")
                for line in lines:
                    yield _parse_line(line)
                _check_size(len(waiting))
            yield _parse_line(waiting)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as problem:
            why = "it closed the connection" if isinstance(problem, EOFError) else problem
            raise self._unreachable_error(f"it aborted {self._what} ({why})") from problem
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            calling = asyncio.open_unix_connection(self._url.removeprefix(UNIX))
            return await asyncio.wait_for(calling, self._seconds)
        except asyncio.TimeoutError:
            waited = format_duration(self._seconds)
            raise self._unreachable_error(f"it did not accept a connection within {waited}") from None
        except OSError as problem:
            raise self._unreachable_error(problem.strerror or str(problem)) from problem

    async def _send(self, writer: asyncio.StreamWriter, body: IO[bytes], on_sent: Callable[[int], None]) -> None:
        sent = 0
        while piece := await asyncio.to_thread(body.read, _MAX_BYTES):
            writer.write(piece)
            await self._with_timeout(writer.drain())
            sent += len(piece)
            on_sent(sent)

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, bool]:
        head = (await self._with_timeout(reader.readuntil(b"\r\n\r\n"))).decode("latin-1").lower()
        return int(head.split(None, 2)[1]), "transfer-encoding: chunked" in head

    async def _body_chunks(self, reader: asyncio.StreamReader, *, is_chunked: bool) -> AsyncIterator[bytes]:
        """Yield the body of an answer; check the end of a chunked one, so that a part does not count as all."""
        while not is_chunked:
            piece = await self._with_timeout(reader.read(_MAX_BYTES))
            if not piece:
                return
            yield piece
        while size := int((await self._with_timeout(reader.readuntil(b"\r\n"))).partition(b";")[0], 16):
            _check_size(size)
            yield (await self._with_timeout(reader.readexactly(size + 2)))[:-2]

    async def _with_timeout(self, answer: Any) -> Any:
        try:
            return await asyncio.wait_for(answer, self._patience)
        except asyncio.TimeoutError:
            raise StreamError(f"no data for {format_duration(self._seconds)}") from None

    def _unreachable_error(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self._kind.name} does not answer at {self._url}: {why}.",
            field="docker_host",
            value=self._url,
            rule="This daemon downloads and builds images.",
            cure=f"Start it ({self._kind.start_command()}); {self._what} then restarts.",
            transient=True,
        )


def _check_size(size: int) -> None:
    if size > _MAX_BYTES:
        raise ValueError("a line that is too long")


def _parse_line(line: bytes) -> dict[str, Any]:
    """Read a line of the daemon's.

    :raises StreamError: it reports an error.
    """
    found = json.loads(line) if line.strip() else {}
    if not isinstance(found, dict):
        return {}
    if found.get("error"):
        raise StreamError(str(found["error"]))
    return found

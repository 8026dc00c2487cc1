"""Stream an artifact of a job from the controller to a browser."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from tornado.httputil import HTTPInputError
from tornado.iostream import StreamClosedError

from jupyter_smx.model.errors import ResourceNotFoundError

if TYPE_CHECKING:
    from jupyter_server.base.handlers import APIHandler
    from tornado.httpclient import HTTPResponse

BYTES_TYPE = "application/octet-stream"


class ArtifactStream:
    """Streams one artifact: headers first, then chunks, each of which waits until the browser has taken it."""

    def __init__(self, handler: APIHandler, name: str) -> None:
        self._handler = handler
        self._name = name
        self._status = 0
        self._length = ""
        self._refusal = bytearray()

    def on_header(self, line: str) -> None:
        """Take one line of the head of the controller's answer."""
        if line.startswith("HTTP/"):
            self._status = int(line.split(" ", 2)[1])
        elif line.lower().startswith("content-length:"):
            self._length = line.split(":", 1)[1].strip()

    async def on_chunk(self, chunk: bytes) -> None:
        """Send some bytes; the message of a refusal by the controller is stored for the end."""
        if self._status != HTTPStatus.OK:
            self._refusal += chunk
            return
        if not self._handler._headers_written:  # noqa: SLF001 - tornado's own word for "too late for headers"
            self._begin()
        self._handler.write(chunk)
        try:
            await self._handler.flush()
        except StreamClosedError as error:
            # The one error by which tornado's client closes a connection without a traceback in the log.
            raise HTTPInputError("The browser closed the connection.") from error

    def finish(self, answer: HTTPResponse) -> None:
        """End the browser's answer as the controller ended its own."""
        if answer.code != HTTPStatus.OK:
            self._handler.set_status(answer.code)
            self._handler.finish(bytes(self._refusal))
            return
        if not self._handler._headers_written:  # noqa: SLF001 - as above: the file is empty
            self._begin()
        self._handler.finish(set_content_type=BYTES_TYPE)

    def _begin(self) -> None:
        self._handler.set_header("Content-Type", BYTES_TYPE)
        self._handler.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(self._name, safe='')}")
        self._handler.set_header("X-Content-Type-Options", "nosniff")
        if self._length:
            self._handler.set_header("Content-Length", self._length)


def file_name(name: str) -> str:
    """Return the last part of an artifact's name.

    :raises ResourceNotFoundError: the name would leave the job's folder.
    """
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\x00" in name:
        raise ResourceNotFoundError(f"There is no artifact {name!r}.", field="name", value=name)
    return parts[-1]

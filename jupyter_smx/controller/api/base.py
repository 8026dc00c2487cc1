"""What every handler of the API does, and whom it asks."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from tornado.iostream import StreamClosedError
from tornado.web import Finish, HTTPError, RequestHandler

from jupyter_smx.controller.errors import FencedError
from jupyter_smx.controller.singleton import peer_uid
from jupyter_smx.model.errors import ErrorBody, SmxError, UnavailableError, ValidationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from jupyter_smx.controller.api.facade import ControllerFacade
    from jupyter_smx.controller.state.change_signal import KeyedSignals
    from jupyter_smx.controller.transfer.stage_out import OutputStager
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import JobMetrics
    from jupyter_smx.model.results.usage import JobUsage

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

ALLOWED_HOSTS = ("localhost", "localhost:80")
PIECE = 262_144
"""Bytes of a file that are in memory at once for each answer."""
_CODES = {403: "AccessDenied", 404: "ResourceNotFound", 405: "MethodNotAllowed"}
_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Making a decoder costs more than using it."""


@dataclass(frozen=True)
class HandlerServices:
    """What handlers need: whom to ask, where files lie, the bells of logs, and what to do when fenced."""

    facade: ControllerFacade
    output_stager: OutputStager
    log_signals: KeyedSignals
    about: Callable[[], dict[str, Any]]
    on_fenced: Callable[[], None]
    uid: int
    metrics: Callable[[Job, int, float], Coroutine[Any, Any, JobMetrics]]
    usage: Callable[[Job, str, int, float], Coroutine[Any, Any, JobUsage]]


class ApiHandler(RequestHandler):
    """What every handler does: knows the user at the other end, answers JSON, and turns errors into bodies."""

    _wait_future: asyncio.Future[Any] | None = None

    @property
    def services(self) -> HandlerServices:
        """Give what was given to the server."""
        found: HandlerServices = self.settings["services"]
        return found

    @property
    def facade(self) -> ControllerFacade:
        """Give whom to ask."""
        return self.services.facade

    def set_default_headers(self) -> None:
        """Say only what is needed."""
        self.clear_header("Server")
        self.set_header("Content-Type", "application/json")

    def prepare(self) -> None:
        """Refuse another user, and a browser that was led here under another name."""
        connection: Any = self.request.connection
        uid = _uid(connection.stream.socket)
        if uid != self.services.uid:
            raise HTTPError(403, f"This controller serves user {self.services.uid}, not user {uid}.")
        if self.request.host not in ALLOWED_HOSTS:
            raise HTTPError(403, f"Host {self.request.host!r} is not this controller; it is localhost.")

    def body(self, kind: type[_T]) -> _T:
        """Read the request's body.

        :raises ValidationError: not JSON, or not of that kind; says at which field.
        """
        try:
            return self._decode(kind)
        except msgspec.DecodeError as error:
            what, _, where = str(error).partition(" - at `$")
            field = where.rstrip("`").lstrip(".")
            raise ValidationError(
                f"The request cannot be read: {what}{f' at {field}' if field else ''}.", field=field
            ) from error

    def _decode(self, kind: type[_T]) -> _T:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        found: _T = decoder.decode(self.request.body)
        return found

    def number(self, name: str, default: float, limit: float) -> float:
        """Read a number of the query; larger ones than ``limit`` count as ``limit``.

        :raises ValidationError: no number, or less than 0.
        """
        text = self.get_query_argument(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = -1.0
        if not value >= 0:
            raise ValidationError(
                f"{name}: {text!r} is not a number.", field=name, value=text, rule="It is a number from 0 on."
            )
        return min(value, limit)

    def attempt(self, job: Job) -> int:
        """Read which run of a job is asked for: ``attempt``, else the newest."""
        return int(self.number("attempt", job.attempt, job.attempt)) or job.attempt

    def answer(self, content: object, status: int = 200) -> None:
        """Write one JSON answer."""
        self.set_status(status)
        self.finish(_encode(content))

    def compute_etag(self) -> None:
        """Leave out what only a cache would read."""

    def answer_job(self, job: Job, status: int = 200) -> None:
        """Write a job: its record and what is derived from it now."""
        summary = self.facade.summary(job)
        derived = {name: getattr(summary, name) for name in ("status", "secondary_status", "queue_position", "cost")}
        derived |= {"summary": summary, "bill": self.facade.bill(job)}
        # One object of two halves: a record with its source is large, and is written once.
        self.set_status(status)
        self.finish(_encode(job)[:-1] + b"," + _encode(derived)[1:])

    async def send_file(self, path: Path) -> None:
        """Stream a file; of one that still grows what was there at the beginning."""
        self.set_header("Content-Type", "application/octet-stream")
        with path.open("rb", buffering=0) as file:
            left = os.fstat(file.fileno()).st_size
            self.set_header("Content-Length", str(left))
            while left and (piece := await asyncio.to_thread(file.read, min(PIECE, left))):
                left -= len(piece)
                self.write(piece)
                try:
                    await self.flush()
                except StreamClosedError:
                    raise Finish from None  # whoever read it left

    async def wait_while_connected(self, waiting: Coroutine[Any, Any, _T]) -> _T:
        """Wait, but no longer than somebody is there to hear the answer."""
        self._wait_future = task = asyncio.ensure_future(waiting)
        try:
            return await task
        except asyncio.CancelledError:
            raise Finish from None

    def on_connection_close(self) -> None:
        """Stop waiting for somebody who left."""
        if self._wait_future is not None:
            self._wait_future.cancel()

    def write_error(self, status_code: int, **context: Any) -> None:
        """Answer an error in the one form that all errors have."""
        error = context.get("exc_info", (None, None, None))[1]
        if isinstance(error, SmxError):
            self.set_status(error.status)
            body = error.body()
        elif isinstance(error, HTTPError):
            body = ErrorBody(
                code=_CODES.get(status_code, "ValidationException"), message=str(error.log_message or error)
            )
        else:
            body = ErrorBody(
                code="InternalServerError",
                message="The controller made a mistake.",
                cure="Its log (controller.log in the data folder) has the details.",
            )
        self.finish(msgspec.json.encode(body))

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        """Log only what is a mistake of ours; when fenced, say so to whoever ends the process."""
        if isinstance(value, FencedError):
            self.services.on_fenced()
        elif not isinstance(value, (SmxError, HTTPError)):
            _log.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))  # type: ignore[arg-type]


def _uid(connection: socket.socket) -> int:
    try:
        return peer_uid(connection)
    except OSError as error:
        raise UnavailableError(f"The user of this connection is not known: {error}.") from error

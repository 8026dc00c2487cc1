"""Base class of the API's handlers, and the services that they use."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from tornado.iostream import StreamClosedError
from tornado.web import Finish, HTTPError

from jupyter_smx.controller.errors import EndingError, FencedError
from jupyter_smx.controller.singleton import peer_uid
from jupyter_smx.controller.telemetry import log_file
from jupyter_smx.model.errors import ErrorBody, ResourceNotFoundError, SmxError, UnavailableError, ValidationError
from jupyter_smx.model.http_routes import ATTEMPT
from jupyter_smx.request_body import BoundedBodyHandler

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from io import FileIO
    from pathlib import Path

    from jupyter_smx.controller.api.answer import Answer
    from jupyter_smx.controller.api.facade import ControllerFacade
    from jupyter_smx.controller.state.change_signal import KeyedSignals
    from jupyter_smx.controller.transfer.stage_out import OutputStager
    from jupyter_smx.model.http_routes import Action, QueryParameter, Route
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import JobMetrics
    from jupyter_smx.model.results.usage import JobUsage

Actions: TypeAlias = "Mapping[Action, Callable[[ApiHandler], Answer | Awaitable[Answer]]]"
"""Functions by the action that they answer."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
P = TypeVar("P", bool, int, float, str)

ALLOWED_HOSTS = ("localhost", "localhost:80")
PIECE = 262_144
"""Bytes of a file that are in memory at once for each answer."""
_CODES = {403: "AccessDenied", 404: "ResourceNotFound", 405: "MethodNotAllowed"}
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Making a decoder costs more than using it."""


@dataclass(frozen=True)
class HandlerServices:
    """Services of the handlers: the facade, the folders of outputs, signals of logs, and the action when fenced."""

    facade: ControllerFacade
    output_stager: OutputStager
    log_signals: KeyedSignals
    about: Callable[[], dict[str, Any]]
    on_fenced: Callable[[], None]
    is_ending: Callable[[], bool]
    uid: int
    metrics: Callable[[Job, int, float], Coroutine[Any, Any, JobMetrics]]
    usage: Callable[[Job, str, int, float], Coroutine[Any, Any, JobUsage]]


class ApiHandler(BoundedBodyHandler):
    """Base of all handlers: checks the user of the connection, answers JSON, and turns errors into bodies."""

    route: Route[Action]
    """The row of the table that the request matches."""
    _wait_future: asyncio.Future[Any] | None = None

    @property
    def services(self) -> HandlerServices:
        """Return the services of the server."""
        found: HandlerServices = self.settings["services"]
        return found

    @property
    def facade(self) -> ControllerFacade:
        """Return the facade that answers requests."""
        return self.services.facade

    def set_default_headers(self) -> None:
        """Set only the necessary headers."""
        self.clear_header("Server")
        self.set_header("Content-Type", "application/json")

    def prepare(self) -> None:
        """Refuse another user, a browser that was led here under another name, and a body that is too large."""
        connection: Any = self.request.connection
        uid = _uid(connection.stream.socket)
        if uid != self.services.uid:
            raise HTTPError(403, f"This controller serves user {self.services.uid}, not user {uid}.")
        if self.request.host not in ALLOWED_HOSTS:
            raise HTTPError(403, f"Host {self.request.host!r} is not this controller; use localhost.")
        self.check_body_size()
        if self.services.is_ending():
            # Its configuration may be an old one, and its records are the next controller's soon.
            self.set_header("Connection", "close")
            raise EndingError("This controller ends; the next one answers this request.")

    def body(self, kind: type[_T]) -> _T:
        """Read the request's body.

        :raises ValidationError: not JSON, or not of that type; the text has the field.
        """
        try:
            return self._decode(kind)
        except msgspec.DecodeError as error:
            what, _, where = str(error).partition(" - at `$")
            field = where.rstrip("`").lstrip(".")
            raise ValidationError(
                f"The request cannot be read: {what}{f' at {field}' if field else ''}.", field=field
            ) from error
        except RecursionError as error:
            raise ValidationError("The request cannot be read: it is nested too deeply.", field="body") from error

    def _decode(self, kind: type[_T]) -> _T:
        decoder = _decoders.get(kind)
        if decoder is None:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
        found: _T = decoder.decode(self.received_body())
        return found

    def query(self, parameter: QueryParameter[P]) -> P:
        """Read a parameter of the query; a number larger than its maximum counts as the maximum.

        :raises ValidationError: no number, or less than 0.
        """
        if parameter not in self.route.query:
            raise LookupError(f"{self.route.action} reads {parameter.name}, which is not in its row of the table.")
        default = parameter.default
        if isinstance(default, str):
            return self.get_query_argument(parameter.name, default, strip=parameter.strip)
        text = self.get_query_argument(parameter.name, "")
        return type(default)(self._number(parameter, text)) if text else default

    def _number(self, parameter: QueryParameter[Any], text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not value >= 0:
            raise ValidationError(
                f"{parameter.name}: {text!r} is not a number.",
                field=parameter.name,
                value=text,
                rule="It must be 0 or more.",
            )
        return min(value, parameter.maximum)

    @property
    def ref(self) -> str:
        """Return the reference in the path, of a job, array or pool."""
        return self.path_args[0]

    def attempt(self, job: Job) -> int:
        """Return the run of a job in the query: ``attempt``, or the newest without it, or 0.

        :raises ResourceNotFoundError: the job has not begun that run.
        """
        text = self.get_query_argument(ATTEMPT.name, "")
        try:
            has_begun = 0 <= float(text) <= job.attempt
        except ValueError:
            has_begun = True  # without a number: the newest, or refused below
        if not has_begun:
            raise ResourceNotFoundError(
                f"attempt: {job.name} has no attempt {text}.",
                field=ATTEMPT.name,
                value=text,
                rule=f"It has begun {job.attempt}, and the first is 1.",
                cure="Leave attempt out for the newest.",
            )
        return self.query(ATTEMPT) or job.attempt

    async def write_answer(self, answer: Answer) -> None:
        """Send the result of an action."""
        status = answer.status or self.route.status
        self.set_status(status)
        for name, value in answer.headers.items():
            self.set_header(name, value)
        if answer.file is not None:
            await self._send_file(answer.file, skips_gaps=answer.skips_gaps)
        elif status == HTTPStatus.NO_CONTENT:
            self.clear_header("Content-Type")
            self.finish()
        else:
            self.finish(answer.body)

    def compute_etag(self) -> None:
        """Leave out what only a cache would read."""

    async def _send_file(self, path: Path, *, skips_gaps: bool) -> None:
        """Stream a file; of a growing one, its current bytes."""
        with path.open("rb", buffering=0) as file:
            whole = [(0, os.fstat(file.fileno()).st_size)]
            ranges = log_file.data_ranges(file.fileno()) if skips_gaps else whole
            self.set_header("Content-Length", str(sum(end - begin for begin, end in ranges)))
            for begin, end in ranges:
                await self._send_range(file, begin, end)

    async def _send_range(self, file: FileIO, begin: int, end: int) -> None:
        file.seek(begin)
        while begin < end and (piece := await asyncio.to_thread(file.read, min(PIECE, end - begin))):
            begin += len(piece)
            self.write(piece)
            try:
                await self.flush()
            except StreamClosedError:
                raise Finish from None  # the client left

    async def wait_while_connected(self, waiting: Coroutine[Any, Any, _T]) -> _T:
        """Wait, but only while the client is connected."""
        self._wait_future = task = asyncio.ensure_future(waiting)
        try:
            return await task
        except asyncio.CancelledError:
            raise Finish from None

    def on_connection_close(self) -> None:
        """Cancel the wait of a client that disconnected."""
        super().on_connection_close()
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
        """Log only unexpected errors; when fenced, call ``on_fenced``, which ends the process."""
        if isinstance(value, FencedError):
            self.services.on_fenced()
        elif not isinstance(value, (SmxError, HTTPError)):
            _log.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))  # type: ignore[arg-type]


def _uid(connection: socket.socket) -> int:
    try:
        return peer_uid(connection)
    except OSError as error:
        raise UnavailableError(f"The user of this connection cannot be identified: {error}.") from error

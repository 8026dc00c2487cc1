"""Base of all handlers under ``/jupyter-smx/``: the connection to the controller, errors, redacted records."""

from __future__ import annotations

import json
import math
import re
import time
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin

from jupyter_smx.model.errors import ErrorBody, ResourceNotFoundError, SmxError, ValidationError
from jupyter_smx.model.http_routes import CONTROLLER_PREFIX, PATH_PARAMETER, SERVER_MAX_WAIT
from jupyter_smx.model.redaction import redact_record
from jupyter_smx.request_body import BoundedBodyHandler
from jupyter_smx.server.handlers.artifact_stream import ArtifactStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tornado.httpclient import HTTPResponse
    from tornado.httputil import HTTPHeaders

    from jupyter_smx.model.http_routes import Route
    from jupyter_smx.server.connection import ControllerConnection, OnLost

_FORWARDED_HEADERS = tuple(
    f"X-Smx-{name}" for name in ("Offset", "Total", "Final", "Host", "Hosts", "Attempt", "Attempts")
)
JSON_TYPE = "application/json"
_METHODS_WITH_BODY = {"POST", "PATCH"}
_AUTH_STATUSES = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}

VERSION = version("jupyter-smx")
"""Version of the running code: read once, since the installation may be replaced while the server runs."""

NOT_LOGGED_IN = "UnrecognizedClientException"
NO_RIGHT = "AccessDeniedException"
"""Codes as of AWS; a browser reads them, since Jupyter answers both with 403."""


class Extension(Protocol):
    """Methods of the extension that the routes need."""

    connection: ControllerConnection

    def wake(self) -> None:
        """Record that the controller was just used."""

    def mark_read(self) -> None:
        """Note that a page reads the latest changes."""

    def diagnostics(self) -> dict[str, Any]:
        """Return the server's part of the doctor page."""


class ControllerHandler(ExtensionHandlerMixin, BoundedBodyHandler, APIHandler):
    """Common part of all routes: the connection to the controller, and errors with the controller's text."""

    auth_resource = "jupyter_smx"
    route: Route[Any]
    """The row of the table that the request matches."""

    @property
    def smx(self) -> Extension:
        """The extension that this handler belongs to."""
        return self.extensionapp  # type: ignore[return-value]

    def set_default_headers(self) -> None:
        """Add the clock and the version to every answer, refusals included."""
        super().set_default_headers()
        self.set_header("X-Smx-Now", f"{time.time():.3f}")
        self.set_header("X-Smx-Version", VERSION)

    async def prepare(self, **options: bool) -> None:
        """Check the user as Jupyter does, then refuse a body that is too large."""
        await super().prepare(**options)
        self.check_body_size()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Distinguish a missing login from a missing permission: Jupyter's answers look the same."""
        if status_code not in _AUTH_STATUSES:
            super().write_error(status_code, **kwargs)
            return
        error = kwargs.get("exc_info", (None, None, None))[1]
        reason = getattr(error, "log_message", None) or HTTPStatus(status_code).phrase
        # Not `current_user`: a request may be refused before its user was looked up.
        is_known = bool(getattr(self, "_jupyter_current_user", None))
        self.finish(msgspec.json.encode(auth_error(self.auth_resource, reason, is_known=is_known)))

    def upstream_path(self) -> str:
        """Return the path of the request at the controller.

        :raises ResourceNotFoundError: no job or pool can have that name.
        """
        values = iter(self.path_args)

        def quote_next(parameter: re.Match[str]) -> str:
            return quote(next(values)) if parameter["slashes"] else quote_segment(next(values))

        return CONTROLLER_PREFIX + re.sub(PATH_PARAMETER, quote_next, self.route.path)

    def select_query(self) -> dict[str, str]:
        """Take the parameters that the route passes on; a token or an XSRF cookie never gets to the controller."""
        found = {
            each.name: self.get_query_argument(each.name, None, strip=each.strip) for each in self.route.proxy_query()
        }
        return {name: value for name, value in found.items() if value is not None}

    def json_body(self) -> bytes:
        """Return the body, which must be a JSON object.

        :raises ValidationError: it is no JSON object.
        """
        body = self.received_body()
        try:
            parsed = json.loads(body)
        except ValueError:
            parsed = None
        except RecursionError as error:
            raise ValidationError("The body of the request is nested too deeply.", field="body") from error
        if not isinstance(parsed, dict):
            raise ValidationError("The body of the request is not a JSON object.", field="body", rule="Send JSON.")
        return body

    def read_wait(self, query: dict[str, str]) -> float:
        """Read the seconds of a long poll from a query, and bound them in it.

        :raises ValidationError: not a number of seconds.
        """
        text = query.get("wait", "0")
        try:
            asked = float(text)
        except ValueError:
            asked = math.nan
        if math.isnan(asked):
            raise ValidationError(f"wait: {text!r} is not a number of seconds.", field="wait", value=text)
        wait = min(max(asked, 0.0), SERVER_MAX_WAIT)
        if "wait" in query:
            query["wait"] = f"{wait:g}"
        return wait

    async def run_guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work of a verb; an SmxError becomes an answer with its status and its message."""
        try:
            await work()
        except SmxError as error:
            if self._headers_written:
                # Too late for a message, which would be taken for the end of the file: close the connection, as it was.
                self.request.connection.close()  # type: ignore[union-attr]
                return
            self.set_status(error.status)
            self.finish(msgspec.json.encode(error.body()))

    async def pass_on(self, content_type: str = JSON_TYPE) -> None:
        """Send the request to the controller by its route, and finish with the answer."""
        self.finish_response(await self.request_controller(), content_type)

    async def request_controller(self) -> HTTPResponse:
        """Send the request to the controller by its route, and return the answer."""
        route, path = self.route, self.upstream_path()
        body = None
        if route.method in _METHODS_WITH_BODY:
            body = self.json_body() if route.body else b"{}"
        if route.proxy is not None and route.proxy.starts_controller:
            await self.smx.connection.ensure()
        query = self.select_query()
        wait = self.read_wait(query)
        answer = await self.smx.connection.request(
            route.method, path, query=query, body=body, wait=wait, on_lost=_on_lost(route)
        )
        if route.method != "GET":
            self.smx.wake()
        return answer

    async def pass_on_file(self, path: str, name: str) -> None:
        """Send the request to ``path`` of the controller and stream the answer as an attachment called ``name``."""
        stream = ArtifactStream(self, name)
        answer = await self.smx.connection.request(
            "GET",
            path,
            query=self.select_query(),
            on_header=stream.on_header,
            on_chunk=stream.on_chunk,
        )
        stream.finish(answer)

    def finish_response(self, answer: HTTPResponse, content_type: str = JSON_TYPE) -> None:
        """Finish with the status, the cursor and the body of an answer of the controller."""
        self.set_status(answer.code)
        self.forward_headers(answer.headers)
        is_error = answer.code >= HTTPStatus.BAD_REQUEST
        if answer.code == HTTPStatus.NO_CONTENT:
            self.finish()
        else:
            kind = JSON_TYPE if is_error else content_type
            self.finish(redact_body(answer.body) if kind == JSON_TYPE else answer.body, set_content_type=kind)

    def forward_headers(self, headers: HTTPHeaders) -> None:
        """Forward the header of the cursor; the controller's other headers are dropped."""
        for name in _FORWARDED_HEADERS:
            if name in headers:
                self.set_header(name, headers[name])


def _on_lost(route: Route[Any]) -> OnLost:
    if route.unrepeatable:
        return "raise"
    # A page that only reads starts no controller: an idle one that exited had nothing to do.
    return "repeat" if route.method == "GET" else "start"


def quote_segment(ref: str) -> str:
    """Quote a reference so that it is one segment of a path and nothing else.

    :raises ResourceNotFoundError: no job or pool can have that name.
    """
    if ref in {".", ".."} or "\x00" in ref:
        raise ResourceNotFoundError(f"There is no job, array or pool {ref!r}.", field="ref", value=ref)
    return quote(ref, safe="")


def redact_body(body: bytes) -> bytes:
    """Return an answer of the controller without a job's secrets and the credentials in its URLs.

    Answers without a record are unchanged. The controller itself sends all: kernels submit the spec again for a rerun.
    """
    if b'"spec"' not in body:
        return body
    record = msgspec.json.decode(body)
    if not isinstance(record, dict) or "spec" not in record:
        return body
    return msgspec.json.encode(redact_record(record))


def auth_error(resource: str, reason: str, *, is_known: bool) -> ErrorBody:
    """Return the body of a 401 or 403: ``reason`` is Jupyter's, ``is_known`` is True if the user is logged in."""
    if not is_known:
        return ErrorBody(
            code=NOT_LOGGED_IN,
            message="Nobody is logged in.",
            rule="Jobs and pools are shown to the user of this Jupyter server only.",
            cure="Log in again.",
        )
    ask = f"Ask the administrator of this Jupyter server for the right to the resource {resource}."
    # A page that was loaded before a new login has the XSRF token of the old one.
    reload = "Reload the page."
    cure = reload if "xsrf" in reason.lower() else ask
    return ErrorBody(code=NO_RIGHT, message=reason, field="resource", value=resource, cure=cure)

"""What answers under ``/jupyter-smx/``: each verb authenticated and authorised, then passed on to the controller."""

from __future__ import annotations

import asyncio
import json
import math
import time
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado.web import authenticated

from jupyter_smx.model.errors import (
    ErrorBody,
    ResourceNotFoundError,
    SmxError,
    UnavailableError,
    ValidationError,
    from_body,
)
from jupyter_smx.model.records.event import Changes
from jupyter_smx.model.records.job import Job
from jupyter_smx.server.connection import NoControllerError
from jupyter_smx.server.handlers import redaction
from jupyter_smx.server.handlers.artifact_stream import ArtifactStream, file_name
from jupyter_smx.server.handlers.auth_errors import auth_error
from jupyter_smx.server.handlers.file_locations import ContentsRoot, locate_files, paths_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tornado.httpclient import HTTPResponse
    from tornado.httputil import HTTPHeaders

    from jupyter_smx.server.connection import ControllerConnection

MAX_WAIT = 60.0
"""Seconds that a browser may hold one request; proxies in between end longer ones."""

_FORWARDED_HEADERS = tuple(
    f"X-Smx-{name}" for name in ("Offset", "Total", "Final", "Host", "Hosts", "Attempt", "Attempts")
)
_JSON = "application/json"
_AUTH_STATUSES = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}

VERSION = version("jupyter-smx")
"""Of the code that runs here: read once, since what is installed may be replaced under a server that goes on."""


class Extension(Protocol):
    """What the routes need of the extension that they belong to."""

    connection: ControllerConnection

    def wake(self) -> None:
        """Say that the controller was just used."""

    def mark_read(self) -> None:
        """Say that a page reads what there is to know."""

    def diagnostics(self) -> dict[str, Any]:
        """Give the server's part of the doctor's page."""


class ControllerHandler(ExtensionHandlerMixin, APIHandler):
    """What all routes share: the way to the controller, and errors as the controller words them."""

    auth_resource = "jupyter_smx"

    @property
    def smx(self) -> Extension:
        """The extension that this handler belongs to."""
        return self.extensionapp  # type: ignore[return-value]

    def set_default_headers(self) -> None:
        """Put the clock and the version into every answer, refusals included."""
        super().set_default_headers()
        self.set_header("X-Smx-Now", f"{time.time():.3f}")
        self.set_header("X-Smx-Version", VERSION)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Tell somebody who is not logged in from somebody without a right: Jupyter's answers look the same."""
        if status_code not in _AUTH_STATUSES:
            super().write_error(status_code, **kwargs)
            return
        error = kwargs.get("exc_info", (None, None, None))[1]
        reason = getattr(error, "log_message", None) or HTTPStatus(status_code).phrase
        # Not `current_user`: a request may be refused before anybody looked who sent it.
        is_known = bool(getattr(self, "_jupyter_current_user", None))
        self.finish(msgspec.json.encode(auth_error(self.auth_resource, reason, is_known=is_known)))

    def select_query(self, *names: str) -> dict[str, str]:
        """Take the query arguments that the controller knows; a token or an XSRF cookie never gets there."""
        found = {name: self.get_query_argument(name, None) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def json_body(self) -> bytes:
        """Give the body, which must be a JSON object.

        :raises ValidationError: it is none.
        """
        try:
            parsed = json.loads(self.request.body)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ValidationError("The body of the request is not a JSON object.", field="body", rule="Send JSON.")
        return self.request.body

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
        wait = min(max(asked, 0.0), MAX_WAIT)
        if "wait" in query:
            query["wait"] = f"{wait:g}"
        return wait

    async def run_guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work of a verb; an error of ours becomes an answer with its status and its sentence."""
        try:
            await work()
        except SmxError as error:
            if self._headers_written:
                # Too late for words, which would pass for the end of the file: the connection breaks off, as it did.
                self.request.connection.close()  # type: ignore[union-attr]
                return
            self.set_status(error.status)
            self.finish(msgspec.json.encode(error.body()))

    async def forward(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
    ) -> None:
        """Send a request to the controller and finish with its answer."""
        wait = self.read_wait(query) if query else 0.0
        answer = await self.smx.connection.request(method, path, query=query, body=body, wait=wait)
        if method != "GET":
            self.smx.wake()
        self._finish_response(answer, content_type)

    async def forward_stream(self, path: str, name: str, *, query: dict[str, str] | None = None) -> None:
        """Send a request to the controller and hand its answer on as it comes, as an attachment called ``name``."""
        passage, ask = ArtifactStream(self, name), self.smx.connection.request
        answer = await ask("GET", path, query=query, on_header=passage.on_header, on_chunk=passage.on_chunk)
        passage.finish(answer)

    def _finish_response(self, answer: HTTPResponse, content_type: str) -> None:
        self.set_status(answer.code)
        self.forward_headers(answer.headers)
        is_error = answer.code >= HTTPStatus.BAD_REQUEST
        if answer.code == HTTPStatus.NO_CONTENT:
            self.finish()
        else:
            kind = _JSON if is_error else content_type
            self.finish(redaction.redact_body(answer.body) if kind == _JSON else answer.body, set_content_type=kind)

    def forward_headers(self, headers: HTTPHeaders) -> None:
        """Hand on the cursor; everything else that the controller says about itself stays here."""
        for name in _FORWARDED_HEADERS:
            if name in headers:
                self.set_header(name, headers[name])


class StateHandler(ControllerHandler):
    """Whether a controller runs and at which number it is; ``POST`` starts one."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Say whether a controller runs, its version and its newest number; that none runs is no failure."""
        await self.run_guarded(self._finish_state)

    @authenticated
    @authorized
    async def post(self) -> None:
        """Start a controller unless one runs."""

        async def start() -> None:
            await self.smx.connection.ensure()
            self.smx.wake()
            await self._finish_state()

        await self.run_guarded(start)

    async def _finish_state(self) -> None:
        try:
            answer = await self.smx.connection.request("GET", "/v1/")
        except NoControllerError:
            problem = self.smx.connection.problem
            self.finish({"running": False} | ({"problem": msgspec.to_builtins(problem.body())} if problem else {}))
            return
        if answer.code == HTTPStatus.OK:
            self.finish({"running": True, **json.loads(answer.body)})
        else:
            self._finish_response(answer, _JSON)


class JobsHandler(ControllerHandler):
    """All jobs; ``POST`` submits one, and starts a controller for it."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """List jobs, newest first."""
        self.smx.mark_read()
        query = self.select_query("limit", "before", "status")
        await self.run_guarded(lambda: self.forward("GET", "/v1/jobs", query=query))

    @authenticated
    @authorized
    async def post(self) -> None:
        """Submit a job: ``{"id", "spec"}``."""

        async def submit() -> None:
            body = self.json_body()
            await self.smx.connection.ensure()
            await self.forward("POST", "/v1/jobs", body=body)

        await self.run_guarded(submit)


class JobHandler(ControllerHandler):
    """One job."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Give the record of a job; ``wait`` and ``until`` hold the answer back."""
        query = self.select_query("wait", "until")
        await self.run_guarded(lambda: self.forward("GET", f"/v1/jobs/{quote_segment(ref)}", query=query))

    @authenticated
    @authorized
    async def delete(self, ref: str) -> None:
        """Delete a finished job."""
        await self.run_guarded(lambda: self.forward("DELETE", f"/v1/jobs/{quote_segment(ref)}"))


class JobActionHandler(ControllerHandler):
    """The wish that a job stops, or that a spot job loses its hosts."""

    @authenticated
    @authorized
    async def post(self, ref: str, wish: str) -> None:
        """Ask for it."""
        await self.run_guarded(lambda: self.forward("POST", f"/v1/jobs/{quote_segment(ref)}/{wish}", body=b"{}"))


class RerunHandler(ControllerHandler):
    """The wish that a job runs once more."""

    @authenticated
    @authorized
    async def post(self, ref: str) -> None:
        """Run a job again: ``{"id": of the new job}``; starts a controller for it."""

        async def rerun() -> None:
            body = self.json_body()
            await self.smx.connection.ensure()
            await self.forward("POST", f"/v1/jobs/{quote_segment(ref)}/rerun", body=body)

        await self.run_guarded(rerun)


class HistoryHandler(ControllerHandler):
    """What a job's logs told over time, what it used of its hosts, and what that says about how it could run better."""

    @authenticated
    @authorized
    async def get(self, ref: str, what: str) -> None:
        """Give the points of a run after a moment, by host, and notes on what could not be read."""
        asked = self.select_query("host", "attempt", "since")
        await self.run_guarded(lambda: self.forward("GET", f"/v1/jobs/{quote_segment(ref)}/{what}", query=asked))


class DifferenceHandler(ControllerHandler):
    """In what two jobs differ."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Compare a job with the one that ``from`` names, or with the run of its name before it."""
        asked = self.select_query("from")
        await self.run_guarded(lambda: self.forward("GET", f"/v1/jobs/{quote_segment(ref)}/diff", query=asked))


class FileLocationsHandler(ControllerHandler):
    """Where the files of a job are in JupyterLab."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Say of each path in a job's record whether it is there, and under which name this server shows it."""

        async def look() -> None:
            answer = await self.smx.connection.request("GET", f"/v1/jobs/{quote_segment(ref)}")
            if answer.code != HTTPStatus.OK:
                self._finish_response(answer, _JSON)
                return
            shown = ContentsRoot.from_manager(self.contents_manager)
            paths = paths_of(msgspec.json.decode(answer.body, type=Job))
            self.finish(msgspec.json.encode(await asyncio.to_thread(locate_files, paths, shown)))

        await self.run_guarded(look)


class ArtifactHandler(ControllerHandler):
    """A file that a job brought home."""

    @authenticated
    @authorized
    async def get(self, ref: str, name: str) -> None:
        """Stream the file as an attachment: what a job wrote is never shown as a page of this server."""

        async def stream() -> None:
            await self.forward_stream(f"/v1/jobs/{quote_segment(ref)}/artifacts/{quote(name)}", file_name(name))

        await self.run_guarded(stream)


class ChangesHandler(ControllerHandler):
    """What changed since a number."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Give the changes after ``since``; without a controller the answer is to list again."""
        self.smx.mark_read()
        query = self.select_query("since", "wait")

        async def follow() -> None:
            try:
                await self.forward("GET", "/v1/changes", query=query)
            except NoControllerError:
                self.finish(msgspec.json.encode(Changes(events=(), seq=0, reset=True)))

        await self.run_guarded(follow)


class DoctorHandler(ControllerHandler):
    """What an administrator wants to know about this server's part and the controller's."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Give what this server and the controller say of themselves; that none runs is no error."""

        async def examine() -> None:
            controller, problem = None, ""
            try:
                answer = await self.smx.connection.request("GET", "/v1/doctor")
                if answer.code == HTTPStatus.OK:
                    controller = json.loads(answer.body)
                else:
                    problem = _sentence(answer)
            except (UnavailableError, ValueError) as error:
                problem = str(error)
            page = {"server": self.smx.diagnostics(), "controller": controller, "problem": problem}
            self.finish(json.dumps(page))

        await self.run_guarded(examine)


def _sentence(answer: HTTPResponse) -> str:
    """Give what the controller says where it refuses."""
    try:
        return str(from_body(msgspec.json.decode(answer.body, type=ErrorBody)))
    except msgspec.DecodeError:
        return f"The controller answered {answer.code}, and nothing that can be read."


def quote_segment(ref: str) -> str:
    """Quote a reference so that it is one segment of a path and nothing else.

    :raises ResourceNotFoundError: no job or pool can have that name.
    """
    if ref in {".", ".."} or "\x00" in ref:
        raise ResourceNotFoundError(f"Nothing is called {ref!r}.", field="ref", value=ref)
    return quote(ref, safe="")

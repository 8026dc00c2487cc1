"""The routes of jobs under ``/jupyter-smx/``: authenticated, authorised, then passed on to the controller."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.model.errors import ErrorBody, UnavailableError, from_body
from jupyter_smx.model.records.event import Changes
from jupyter_smx.model.records.job import Job
from jupyter_smx.server.connection import NoControllerError
from jupyter_smx.server.handlers.artifact_stream import file_name
from jupyter_smx.server.handlers.base import JSON_TYPE, ControllerHandler, quote_segment
from jupyter_smx.server.handlers.file_locations import ContentsRoot, locate_files, paths_of

if TYPE_CHECKING:
    from tornado.httpclient import HTTPResponse


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
            self._finish_response(answer, JSON_TYPE)


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
    async def post(self, ref: str, action: str) -> None:
        """Ask for it."""
        await self.run_guarded(lambda: self.forward("POST", f"/v1/jobs/{quote_segment(ref)}/{action}", body=b"{}"))


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
                self._finish_response(answer, JSON_TYPE)
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

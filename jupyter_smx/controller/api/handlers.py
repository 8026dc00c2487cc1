"""Serve the controller's HTTP API on its unix socket: read what is asked, ask the facade, write the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError

from jupyter_smx.controller.api.array_handlers import ArrayHandler, ArraysHandler, StopArrayHandler
from jupyter_smx.controller.api.artifact_handlers import ArtifactHandler
from jupyter_smx.controller.api.base import ApiHandler
from jupyter_smx.controller.api.log_handlers import MAX_WAIT, LogSearchHandler, LogsHandler, WholeLogHandler, check_host
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.spec.job_spec import MAX_SPEC_BYTES, JobSpec
from jupyter_smx.model.status import Status
from jupyter_smx.rerun_spec import make_rerun_spec

if TYPE_CHECKING:
    from tornado.web import RequestHandler

    from jupyter_smx.controller.api.base import HandlerServices

_log = logging.getLogger(__name__)

MAX_BODY = MAX_SPEC_BYTES
BODY_WITHIN = 60.0
"""Seconds in which a request's body must be here; on a unix socket it takes milliseconds."""
EVENTS_AT_ONCE = 1_000
JOBS_AT_ONCE = 1_000


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs``."""

    id: str
    spec: JobSpec


class RerunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs/{ref}/rerun``: the id of the new job, and when somebody asked for it."""

    id: str
    submitted_at: float = 0.0


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/plan``."""

    spec: JobSpec


class KeepAliveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``PATCH /v1/pools/{ref}``; seconds from now."""

    keep_alive: int


class ApiServer(HTTPServer):
    """Counts who is connected."""

    connections = 0

    def handle_stream(self, stream: Any, address: Any) -> None:
        """Take a new connection."""
        self.connections += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """See a connection end."""
        super().on_close(server_conn)
        self.connections -= 1


def make_server(services: HandlerServices, idle_connection: float) -> ApiServer:
    """Make the server; the caller adds the socket.

    A connection without a request for ``idle_connection`` seconds is closed: a kernel keeps its own open for the next
    cell, and must not keep this process alive by it.
    """
    application = Application(
        ROUTES, default_handler_class=NotFoundHandler, log_function=_log_request, services=services
    )
    return ApiServer(
        application,
        max_body_size=MAX_BODY,
        max_buffer_size=2 * MAX_BODY,
        idle_connection_timeout=idle_connection,
        body_timeout=BODY_WITHIN,
    )


class NotFoundHandler(ApiHandler):
    """Every other address."""

    def prepare(self) -> None:
        """Say that nothing is here."""
        super().prepare()
        raise HTTPError(404, f"There is nothing at {self.request.path}.")


class AboutHandler(ApiHandler):
    """Who is there."""

    def get(self) -> None:
        """Give version, protocol, process, epoch, newest event and data folder."""
        self.answer(self.services.about())


class JobsHandler(ApiHandler):
    """All jobs, and new ones."""

    def get(self) -> None:
        """Give one page of jobs, newest first; ``limit``, ``before`` and ``status`` choose it.

        ``tasks=0`` gives the newest that are no tasks of an array, of any status.
        """
        limit = int(self.number("limit", 100, JOBS_AT_ONCE))
        status = _status(self.get_query_argument("status", ""))
        if self.number("tasks", 1, 1) == 0:
            # Arrays are listed for themselves; of them a page of jobs would show one and nothing else.
            self.answer({"jobs": self.facade.arrays.single_jobs(limit)})
            return
        self.answer({"jobs": self.facade.jobs(limit, self.get_query_argument("before", ""), status)})

    async def post(self) -> None:
        """Take a job; on a warm pool it is on its way to the host before the answer is."""
        wish = self.body(Submission)
        job, is_new = self.facade.submit(wish.id, wish.spec, await self.facade.validator.cached_image(wish.spec))
        self.answer_job(job, 201 if is_new else 200)


class PlanHandler(ApiHandler):
    """What would happen."""

    async def post(self) -> None:
        """Say where a wish would run and why; nothing is created."""
        spec = self.body(PlanRequest).spec
        self.answer(self.facade.plan(spec, await self.facade.validator.peek_image(spec)))


class JobHandler(ApiHandler):
    """One job."""

    async def get(self, ref: str) -> None:
        """Give the record, or wait (``wait`` seconds) until its first line or its end (``until``)."""
        wait = self.number("wait", 0.0, MAX_WAIT)
        until = self.get_query_argument("until", "final")
        if until not in ("first_line", "final"):
            raise ValidationError(
                f"until: {until!r} is not a step to wait for.", field="until", value=until, cure="first_line or final."
            )
        self.answer_job(
            await self.wait_while_connected(self.facade.wait_job(ref, until, wait)) if wait else self.facade.job(ref)
        )

    async def delete(self, ref: str) -> None:
        """Forget a finished job and everything it brought home."""
        job = self.facade.delete(ref)
        await asyncio.to_thread(self.services.output_stager.folder(job.id).delete)
        self.clear_header("Content-Type")
        self.set_status(204)


class RerunHandler(ApiHandler):
    """The wish that a job runs once more."""

    async def post(self, ref: str) -> None:
        """Take its wish again, under a new id; the same request again gives the same job."""
        asked = self.body(RerunRequest)
        job = self.facade.job(ref)
        kept = self.services.output_stager.folder(job.id).source_dir
        spec = make_rerun_spec(job, asked.submitted_at, kept)
        new, is_new = self.facade.submit(asked.id, spec, await self.facade.validator.cached_image(spec))
        self.answer_job(new, 201 if is_new else 200)


class ShellHandler(ApiHandler):
    """A shell on a host of a job."""

    async def get(self, ref: str) -> None:
        """Say which command opens one on ``host``, the first where none is named."""
        self.answer(await self.facade.shell_commands.command_for_job(ref, self.get_query_argument("host", "")))


class StopHandler(ApiHandler):
    """The wish that a job ends."""

    def post(self, ref: str) -> None:
        """Ask a job to stop."""
        self.answer_job(self.facade.stop(ref))


class InterruptHandler(ApiHandler):
    """The wish that a spot job loses its hosts."""

    def post(self, ref: str) -> None:
        """Take the hosts of a spot job away; it begins again."""
        self.answer_job(self.facade.interrupt(ref))


class MetricsHandler(ApiHandler):
    """What a job's logs told."""

    async def get(self, ref: str) -> None:
        """Give the job's progress, the points of all its metrics by host, and notes on what could not be read.

        Only points after the moment ``since``, and of the newest run unless ``attempt`` is another one.
        """
        job = self.facade.job(ref)
        attempt, since = self.attempt(job), self.number("since", 0.0, 2.0**62)
        self.answer(await self.wait_while_connected(self.services.metrics(job, attempt, since)))


class UsageHandler(ApiHandler):
    """What a job used of its hosts."""

    async def get(self, ref: str) -> None:
        """Give the figures of its hosts, or of ``host``, over time, those after the moment ``since``.

        They are of the newest run unless ``attempt`` is another one.
        """
        job = self.facade.job(ref)
        host, since = self.get_query_argument("host", ""), self.number("since", 0.0, 2.0**62)
        asked = check_host(job, host) if host else "", self.attempt(job), since
        self.answer(await self.wait_while_connected(self.services.usage(job, *asked)))


class AdviceHandler(ApiHandler):
    """How a job could run better."""

    async def get(self, ref: str) -> None:
        """Give what the rules of SageMaker's profiler find in what its hosts used so far, and what they predict.

        It is of the newest run unless ``attempt`` is another one.
        """
        job = self.facade.job(ref)
        usage = await self.wait_while_connected(self.services.usage(job, "", self.attempt(job), 0.0))
        self.answer(self.facade.advice(job, usage))


class DiffHandler(ApiHandler):
    """In what two jobs differ."""

    def get(self, ref: str) -> None:
        """Say what became different on the way to a job, from the job ``from`` or the run of its name before it."""
        self.answer(self.facade.compare(ref, self.get_query_argument("from", "")))


class PoolsHandler(ApiHandler):
    """Live pools."""

    def get(self) -> None:
        """List the live pools."""
        self.answer({"pools": self.facade.pools()})


class PoolHandler(ApiHandler):
    """One pool."""

    async def patch(self, ref: str) -> None:
        """Keep an idle pool for so many seconds from now; 0 releases it."""
        self.answer(await self.facade.extend(ref, self.body(KeepAliveRequest).keep_alive))

    def delete(self, ref: str) -> None:
        """Release an idle pool."""
        self.answer(self.facade.release(ref), 202)


class PoolShellHandler(ApiHandler):
    """A shell on a host of a pool."""

    async def get(self, ref: str) -> None:
        """Say which command opens one on ``host``, the first where none is named."""
        self.answer(await self.facade.shell_commands.command_for_pool(ref, self.get_query_argument("host", "")))


class InstanceTypesHandler(ApiHandler):
    """What hosts can be."""

    def get(self) -> None:
        """List the catalogue, and say which file it is from where the administrator replaced it."""
        self.answer(self.facade.instance_types())


class ChangesHandler(ApiHandler):
    """What happened."""

    async def get(self) -> None:
        """Give the events after ``since``, waiting for one (``wait`` seconds) when there is none yet."""
        since = int(self.number("since", 0, 2**62))
        until = time.monotonic() + self.number("wait", 0.0, MAX_WAIT)
        changes = self.facade.changes(since, EVENTS_AT_ONCE)
        while not (changes.events or changes.reset) and (left := until - time.monotonic()) > 0:
            # The signal is taken before anybody else can run, so that no change is missed.
            await self.wait_while_connected(asyncio.wait({self.facade.next_change()}, timeout=left))
            changes = self.facade.changes(since, EVENTS_AT_ONCE)
        self.answer(changes)


class DoctorHandler(ApiHandler):
    """How the controller is."""

    async def get(self) -> None:
        """Give what a doctor's page shows of the controller and its engines."""
        self.answer(await self.facade.doctor())

    async def post(self) -> None:
        """End what engines still have of clusters that nobody has a record of."""
        self.answer(await self.facade.fix())


def _status(word: str) -> Status | None:
    if not word:
        return None
    try:
        return Status(word)
    except ValueError:
        known = [status.value for status in Status]
        raise ValidationError(
            f"status: {word!r} is not a status.",
            field="status",
            value=word,
            rule=f"It is one of {', '.join(known)}.",
            cure=suggest_names(word, known),
        ) from None


def _log_request(handler: RequestHandler) -> None:
    took = handler.request.request_time() * 1000
    _log.debug("%s %s %d %.1f ms", handler.request.method, handler.request.path, handler.get_status(), took)


_REF = r"([^/]+)"

ROUTES: list[tuple[str, type[ApiHandler]]] = [
    (r"/v1/", AboutHandler),
    (r"/v1/jobs", JobsHandler),
    (r"/v1/plan", PlanHandler),
    (rf"/v1/jobs/{_REF}", JobHandler),
    (rf"/v1/jobs/{_REF}/stop", StopHandler),
    (rf"/v1/jobs/{_REF}/interrupt", InterruptHandler),
    (rf"/v1/jobs/{_REF}/rerun", RerunHandler),
    (rf"/v1/jobs/{_REF}/shell", ShellHandler),
    (rf"/v1/jobs/{_REF}/logs", LogsHandler),
    (rf"/v1/jobs/{_REF}/logs/search", LogSearchHandler),
    (rf"/v1/jobs/{_REF}/logs/whole", WholeLogHandler),
    (rf"/v1/jobs/{_REF}/metrics", MetricsHandler),
    (rf"/v1/jobs/{_REF}/usage", UsageHandler),
    (rf"/v1/jobs/{_REF}/advice", AdviceHandler),
    (rf"/v1/jobs/{_REF}/diff", DiffHandler),
    (rf"/v1/jobs/{_REF}/artifacts/(.+)", ArtifactHandler),
    (r"/v1/arrays", ArraysHandler),
    (rf"/v1/arrays/{_REF}", ArrayHandler),
    (rf"/v1/arrays/{_REF}/stop", StopArrayHandler),
    (r"/v1/pools", PoolsHandler),
    (rf"/v1/pools/{_REF}", PoolHandler),
    (rf"/v1/pools/{_REF}/shell", PoolShellHandler),
    (r"/v1/instance_types", InstanceTypesHandler),
    (r"/v1/changes", ChangesHandler),
    (r"/v1/doctor", DoctorHandler),
]

"""The controller's HTTP API on its unix socket: reads what is asked, asks the desk, writes the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError

from jupyter_smx.controller.api.array_handlers import Arrays, OneArray, StopArray
from jupyter_smx.controller.api.artifact_handlers import Artifacts
from jupyter_smx.controller.api.base import Handler
from jupyter_smx.controller.api.log_handlers import MAX_WAIT, Logs, LogSearch, WholeLog, check_host
from jupyter_smx.model.errors import ValidationError, nearest
from jupyter_smx.model.spec.job_spec import MAX_WISH, JobSpec
from jupyter_smx.model.status import Status
from jupyter_smx.rerun_spec import spec_again

if TYPE_CHECKING:
    from tornado.web import RequestHandler

    from jupyter_smx.controller.api.base import Surroundings

_log = logging.getLogger(__name__)

MAX_BODY = MAX_WISH
BODY_WITHIN = 60.0
"""Seconds in which a request's body must be here; on a unix socket it takes milliseconds."""
EVENTS_AT_ONCE = 1_000
JOBS_AT_ONCE = 1_000


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs``."""

    id: str
    spec: JobSpec


class Again(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/jobs/{ref}/rerun``: the id of the new job, and when somebody asked for it."""

    id: str
    submitted_at: float = 0.0


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/plan``."""

    spec: JobSpec


class KeepAlive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``PATCH /v1/pools/{ref}``; seconds from now."""

    keep_alive: int


class Server(HTTPServer):
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


def make_server(around: Surroundings, idle_connection: float) -> Server:
    """Make the server; the caller adds the socket.

    A connection without a request for ``idle_connection`` seconds is closed: a kernel keeps its own open for the next
    cell, and must not keep this process alive by it.
    """
    application = Application(ROUTES, default_handler_class=Nothing, log_function=_log_request, around=around)
    return Server(
        application,
        max_body_size=MAX_BODY,
        max_buffer_size=2 * MAX_BODY,
        idle_connection_timeout=idle_connection,
        body_timeout=BODY_WITHIN,
    )


class Nothing(Handler):
    """Every other address."""

    def prepare(self) -> None:
        """Say that nothing is here."""
        super().prepare()
        raise HTTPError(404, f"There is nothing at {self.request.path}.")


class About(Handler):
    """Who is there."""

    def get(self) -> None:
        """Give version, protocol, process, epoch, newest event and data folder."""
        self.answer(self.around.about())


class Jobs(Handler):
    """All jobs, and new ones."""

    def get(self) -> None:
        """Give one page of jobs, newest first; ``limit``, ``before`` and ``status`` choose it.

        ``tasks=0`` gives the newest that are no tasks of an array, of any status.
        """
        limit = int(self.number("limit", 100, JOBS_AT_ONCE))
        status = _status(self.get_query_argument("status", ""))
        if self.number("tasks", 1, 1) == 0:
            # Arrays are listed for themselves; of them a page of jobs would show one and nothing else.
            self.answer({"jobs": self.desk.arrays.jobs_that_are_no_tasks(limit)})
            return
        self.answer({"jobs": self.desk.jobs(limit, self.get_query_argument("before", ""), status)})

    async def post(self) -> None:
        """Take a job; on a warm pool it is on its way to the host before the answer is."""
        wish = self.body(Submission)
        job, is_new = self.desk.submit(wish.id, wish.spec, await self.desk.intake.recall(wish.spec))
        self.answer_job(job, 201 if is_new else 200)


class Plans(Handler):
    """What would happen."""

    async def post(self) -> None:
        """Say where a wish would run and why; nothing is created."""
        spec = self.body(Plan).spec
        self.answer(self.desk.plan(spec, await self.desk.intake.image_of(spec)))


class OneJob(Handler):
    """One job."""

    async def get(self, ref: str) -> None:
        """Give the record, or wait (``wait`` seconds) until its first line or its end (``until``)."""
        wait = self.number("wait", 0.0, MAX_WAIT)
        until = self.get_query_argument("until", "final")
        if until not in ("first_line", "final"):
            raise ValidationError(
                f"until: {until!r} is not a step to wait for.", field="until", value=until, cure="first_line or final."
            )
        self.answer_job(await self.patiently(self.desk.wait_job(ref, until, wait)) if wait else self.desk.job(ref))

    async def delete(self, ref: str) -> None:
        """Forget a finished job and everything it brought home."""
        job = self.desk.delete(ref)
        await asyncio.to_thread(self.around.staging.folder(job.id).delete)
        self.clear_header("Content-Type")
        self.set_status(204)


class Rerun(Handler):
    """The wish that a job runs once more."""

    async def post(self, ref: str) -> None:
        """Take its wish again, under a new id; the same request again gives the same job."""
        asked = self.body(Again)
        job = self.desk.job(ref)
        kept = self.around.staging.folder(job.id).source_dir
        spec = spec_again(job, asked.submitted_at, kept)
        new, is_new = self.desk.submit(asked.id, spec, await self.desk.intake.recall(spec))
        self.answer_job(new, 201 if is_new else 200)


class Shell(Handler):
    """A shell on a host of a job."""

    async def get(self, ref: str) -> None:
        """Say which command opens one on ``host``, the first where none is named."""
        self.answer(await self.desk.shells.of_job(ref, self.get_query_argument("host", "")))


class Stop(Handler):
    """The wish that a job ends."""

    def post(self, ref: str) -> None:
        """Ask a job to stop."""
        self.answer_job(self.desk.stop(ref))


class Interrupt(Handler):
    """The wish that a spot job loses its hosts."""

    def post(self, ref: str) -> None:
        """Take the hosts of a spot job away; it begins again."""
        self.answer_job(self.desk.interrupt(ref))


class Metrics(Handler):
    """What a job's logs told."""

    async def get(self, ref: str) -> None:
        """Give the job's progress, the points of all its metrics by host, and notes on what could not be read.

        Only points after the moment ``since``, and of the newest run unless ``attempt`` is another one.
        """
        job = self.desk.job(ref)
        attempt, since = self.attempt(job), self.number("since", 0.0, 2.0**62)
        self.answer(await self.patiently(self.around.metrics(job, attempt, since)))


class Usage(Handler):
    """What a job used of its hosts."""

    async def get(self, ref: str) -> None:
        """Give the figures of its hosts, or of ``host``, over time, those after the moment ``since``.

        They are of the newest run unless ``attempt`` is another one.
        """
        job = self.desk.job(ref)
        host, since = self.get_query_argument("host", ""), self.number("since", 0.0, 2.0**62)
        asked = check_host(job, host) if host else "", self.attempt(job), since
        self.answer(await self.patiently(self.around.usage(job, *asked)))


class AdviceOnJob(Handler):
    """How a job could run better."""

    async def get(self, ref: str) -> None:
        """Give what the rules of SageMaker's profiler find in what its hosts used so far, and what they predict.

        It is of the newest run unless ``attempt`` is another one.
        """
        job = self.desk.job(ref)
        usage = await self.patiently(self.around.usage(job, "", self.attempt(job), 0.0))
        self.answer(self.desk.advice(job, usage))


class Differences(Handler):
    """In what two jobs differ."""

    def get(self, ref: str) -> None:
        """Say what became different on the way to a job, from the job ``from`` or the run of its name before it."""
        self.answer(self.desk.compare(ref, self.get_query_argument("from", "")))


class Pools(Handler):
    """Live pools."""

    def get(self) -> None:
        """List the live pools."""
        self.answer({"pools": self.desk.pools()})


class OnePool(Handler):
    """One pool."""

    async def patch(self, ref: str) -> None:
        """Keep an idle pool for so many seconds from now; 0 releases it."""
        self.answer(await self.desk.extend(ref, self.body(KeepAlive).keep_alive))

    def delete(self, ref: str) -> None:
        """Release an idle pool."""
        self.answer(self.desk.release(ref), 202)


class PoolShell(Handler):
    """A shell on a host of a pool."""

    async def get(self, ref: str) -> None:
        """Say which command opens one on ``host``, the first where none is named."""
        self.answer(await self.desk.shells.of_pool(ref, self.get_query_argument("host", "")))


class InstanceTypes(Handler):
    """What hosts can be."""

    def get(self) -> None:
        """List the catalogue, and say which file it is from where the administrator replaced it."""
        self.answer(self.desk.instance_types())


class ChangesPage(Handler):
    """What happened."""

    async def get(self) -> None:
        """Give the events after ``since``, waiting for one (``wait`` seconds) when there is none yet."""
        since = int(self.number("since", 0, 2**62))
        until = time.monotonic() + self.number("wait", 0.0, MAX_WAIT)
        changes = self.desk.changes(since, EVENTS_AT_ONCE)
        while not (changes.events or changes.reset) and (left := until - time.monotonic()) > 0:
            # The bell is taken before anybody else can run, so that no ring is missed.
            await self.patiently(asyncio.wait({self.desk.next_change()}, timeout=left))
            changes = self.desk.changes(since, EVENTS_AT_ONCE)
        self.answer(changes)


class Doctor(Handler):
    """How the controller is."""

    async def get(self) -> None:
        """Give what a doctor's page shows of the controller and its engines."""
        self.answer(await self.desk.doctor())

    async def post(self) -> None:
        """End what engines still have of clusters that nobody has a record of."""
        self.answer(await self.desk.fix())


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
            cure=nearest(word, known),
        ) from None


def _log_request(handler: RequestHandler) -> None:
    took = handler.request.request_time() * 1000
    _log.debug("%s %s %d %.1f ms", handler.request.method, handler.request.path, handler.get_status(), took)


_REF = r"([^/]+)"

ROUTES: list[tuple[str, type[Handler]]] = [
    (r"/v1/", About),
    (r"/v1/jobs", Jobs),
    (r"/v1/plan", Plans),
    (rf"/v1/jobs/{_REF}", OneJob),
    (rf"/v1/jobs/{_REF}/stop", Stop),
    (rf"/v1/jobs/{_REF}/interrupt", Interrupt),
    (rf"/v1/jobs/{_REF}/rerun", Rerun),
    (rf"/v1/jobs/{_REF}/shell", Shell),
    (rf"/v1/jobs/{_REF}/logs", Logs),
    (rf"/v1/jobs/{_REF}/logs/search", LogSearch),
    (rf"/v1/jobs/{_REF}/logs/whole", WholeLog),
    (rf"/v1/jobs/{_REF}/metrics", Metrics),
    (rf"/v1/jobs/{_REF}/usage", Usage),
    (rf"/v1/jobs/{_REF}/advice", AdviceOnJob),
    (rf"/v1/jobs/{_REF}/diff", Differences),
    (rf"/v1/jobs/{_REF}/artifacts/(.+)", Artifacts),
    (r"/v1/arrays", Arrays),
    (rf"/v1/arrays/{_REF}", OneArray),
    (rf"/v1/arrays/{_REF}/stop", StopArray),
    (r"/v1/pools", Pools),
    (rf"/v1/pools/{_REF}", OnePool),
    (rf"/v1/pools/{_REF}/shell", PoolShell),
    (r"/v1/instance_types", InstanceTypes),
    (r"/v1/changes", ChangesPage),
    (r"/v1/doctor", Doctor),
]

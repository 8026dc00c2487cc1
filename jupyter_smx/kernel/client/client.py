"""The kernel's client of the controller: typed requests, the controller started on demand."""

from __future__ import annotations

import http.client
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from jupyter_smx.controller_launch_errors import ANSWER_LIMIT, add_doubt
from jupyter_smx.kernel.client import request_errors
from jupyter_smx.kernel.client.answer_wait import AnswerWait, RepeatPolicy
from jupyter_smx.kernel.client.connection import Connection, Response
from jupyter_smx.model.errors import (
    ErrorBody,
    RefusedError,
    ResourceNotFoundError,
    UnavailableError,
    ValidationError,
    from_body,
)
from jupyter_smx.model.http_routes import METHODS, UNREPEATABLE, controller_path
from jupyter_smx.model.records.event import Changes, PoolSummary
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.results.progress import JobMetrics
from jupyter_smx.model.results.reports import Bill, EngineInfo, EngineNames, JobAdvice, PlannedFiles, Why
from jupyter_smx.model.results.usage import JobUsage
from jupyter_smx.model.spec.array import ArraySummary
from jupyter_smx.model.spec.instance import TypesListing
from jupyter_smx.model.spec.job_spec import MAX_SPEC_BYTES
from jupyter_smx.model.text import format_size, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.model.http_routes import Action
    from jupyter_smx.model.spec.array import TaskOverrides
    from jupyter_smx.model.spec.job_spec import JobSpec

_REPEAT = RepeatPolicy()
_LOOK_LIMIT, _FIX_LIMIT = 15.0, 90.0
"""More seconds, for engines that look at machines, or delete files there."""

_ERROR = 400
_Model = TypeVar("_Model")


class Jobs(Struct, frozen=True):
    """Answer to ``GET /v1/jobs``."""

    jobs: tuple[JobSummary, ...]


class JobListing(Jobs, frozen=True):
    """A list of jobs: jobs that are no tasks, and arrays."""

    arrays: tuple[ArraySummary, ...] = ()


class ArrayDetail(ArraySummary, frozen=True, kw_only=True):
    """Answer to ``GET /v1/arrays/{ref}``."""

    tasks: tuple[JobSummary, ...] = ()


class Arrays(Struct, frozen=True):
    """Answer to ``GET /v1/arrays``."""

    arrays: tuple[ArraySummary, ...]


class Pools(Struct, frozen=True):
    """Answer to ``GET /v1/pools``."""

    pools: tuple[PoolSummary, ...]


class Plan(Struct, frozen=True):
    """Answer to ``POST /v1/plan``."""

    sentence: str
    why: Why | None = None
    engine_request: Any = None
    sent: tuple[PlannedFiles, ...] = ()


class ControllerInfo(Struct, frozen=True):
    """Answer to ``GET /v1/``."""

    seq: int
    version: str = ""
    protocol: int = 1
    pid: int = 0
    data_dir: str = ""


class JobBill(Struct, frozen=True):
    """The part of the answer to ``GET /v1/jobs/{ref}`` that is in no record: the bill of the job."""

    name: str
    bill: Bill


class LogChunk(Struct, frozen=True):
    """A piece of a host's log: the bytes, where the next piece starts, the size so far, whether more can come.

    It is of one ``attempt``; the job has begun ``attempts`` of them.
    """

    data: bytes
    offset: int
    total: int
    final: bool
    host: str
    attempt: int = 1
    attempts: int = 1


class Client:
    """Talks to one controller; quick requests share a connection, each waiting thread has one of its own."""

    def __init__(
        self,
        path: Path,
        start: Callable[[], None],
        patience: float = ANSWER_LIMIT,
        repeat: RepeatPolicy = _REPEAT,
    ) -> None:
        self.path = path
        self._repeat = repeat
        self._timeout = patience
        self._start = start
        self.before_start: Callable[[], object] = _do_nothing
        """Called by the thread of a request before it starts a controller."""
        self._quick = Connection(path)
        self._waiting = threading.local()
        # Weakly, because a thread that ends takes its connection with it.
        self._connections = weakref.WeakSet({self._quick})
        self._closed = False
        self.released_pools: set[str] = set()
        """IDs of the pools that this client released."""
        self._engine_infos: dict[str, EngineInfo] = {}

    def controller_info(self) -> ControllerInfo:
        """Return the controller's identity and the newest sequence number."""
        return self._request("describe_controller", ControllerInfo)

    def submit(self, job_id: str, spec: JobSpec) -> Job:
        """Submit a job; a repeated id and request return the same job.

        :raises SmxError: the controller refuses the request (see its class), or cannot be reached.
        """
        return self._request("submit_job", Job, body={"id": job_id, "spec": spec})

    def plan(self, spec: JobSpec) -> Plan:
        """Request the plan of a job; nothing is created."""
        return self._request("plan_job", Plan, body={"spec": spec})

    def job(self, ref: str) -> Job:
        """Read a job by id, name, prefix or base name."""
        return self._request("get_job", Job, ref)

    def job_bill(self, ref: str) -> JobBill:
        """Return the bill of a job until now."""
        return self._request("get_job", JobBill, ref)

    def advice(self, ref: str) -> JobAdvice:
        """Return how a job could run better, as far as its resource usage shows."""
        return self._request("get_advice", JobAdvice, ref)

    def wait(self, ref: str, seconds: float, until: Literal["first_line", "final"] = "final") -> Job:
        """Read a job when it gets there, or as it is after ``seconds``."""
        return self._request("get_job", Job, ref, query={"wait": seconds, "until": until}, wait=seconds)

    def jobs(
        self, limit: int = 20, status: str = "", before: str = "", *, tasks: bool = True
    ) -> tuple[JobSummary, ...]:
        """List jobs, newest first; ``status`` (a :class:`Status`) and ``before`` (an id) leave only those, or older.

        Without ``tasks`` only jobs that are no tasks of an array are given, of any status.
        """
        if not tasks:
            return self._request("list_jobs", Jobs, query={"limit": limit, "tasks": 0}).jobs
        wanted = {"limit": limit} | ({"status": status} if status else {}) | ({"before": before} if before else {})
        return self._request("list_jobs", Jobs, query=wanted).jobs

    def stop(self, ref: str, *, abandon: bool = False) -> Job:
        """Request a job's stop; with ``abandon`` it does not wait for unreachable hosts."""
        return self._request("stop_job", Job, ref, query={"abandon": 1} if abandon else None)

    def interrupt(self, ref: str) -> Job:
        """Take the hosts of a spot job away."""
        return self._request("interrupt_job", Job, ref)

    def rerun(self, ref: str, job_id: str, submitted_at: float) -> Job:
        """Submit the request of a job again under a new id; a repeated call returns the same job.

        :raises ResourceNotFoundError: the job does not exist, or its files were deleted.
        """
        body = {"id": job_id, "submitted_at": submitted_at}
        return self._request("rerun_job", Job, ref, body=body)

    def shell(self, ref: str, host: str = "") -> list[str]:
        """Return the command that opens a shell on a host of a job; "" is the first host."""
        return self._shell("get_job_shell", ref, host)

    def pool_shell(self, ref: str, host: str = "") -> list[str]:
        """Return the command for a host of a pool, whether a job uses it or not."""
        return self._shell("get_pool_shell", ref, host)

    def _shell(self, action: Action, ref: str, host: str) -> list[str]:
        return self._request(action, dict[str, list[str]], ref, query={"host": host} if host else None)["command"]

    def submit_array(
        self, array_id: str, spec: JobSpec, tasks: Sequence[TaskOverrides], *, title: str = "", max_concurrent: int = 0
    ) -> ArraySummary:
        """Submit many jobs, all or none; a repeated id and request return the same array.

        :raises SmxError: the controller refuses one of them, or cannot be reached.
        """
        body = {"id": array_id, "spec": spec, "tasks": tasks, "title": title, "max_concurrent": max_concurrent}
        return self._request("submit_array", ArraySummary, body=body)

    def array(self, ref: str, *, ended: int = 0, wait: float = 0.0, tasks: bool = True) -> ArrayDetail:
        """Read an array, or wait ``wait`` seconds at most until more than ``ended`` tasks have a verdict."""
        wanted: dict[str, float] = {"tasks": int(tasks)} | ({"ended": ended, "wait": wait} if wait else {})
        return self._request("get_array", ArrayDetail, ref, query=wanted, wait=wait)

    def arrays(self, limit: int = 20) -> tuple[ArraySummary, ...]:
        """List arrays, newest first."""
        return self._request("list_arrays", Arrays, query={"limit": limit}).arrays

    def stop_array(self, ref: str, *, abandon: bool = False) -> ArraySummary:
        """Request the stop of every task of an array; ``abandon`` as for a job."""
        return self._request("stop_array", ArraySummary, ref, query={"abandon": 1} if abandon else None)

    def log(
        self,
        ref: str,
        host: str,
        offset: int,
        wait: float = 0.0,
        limit: int = 262_144,
        *,
        attempt: int = 0,
        before: int | None = None,
    ) -> LogChunk:
        """Read a host's log from a byte on; with ``wait`` seconds for more when there is none.

        "" is the first host, 0 the newest attempt. Bytes that a limit on disk left out are passed over: those that
        follow ``offset``, or those before ``before``, where the bytes have to end.
        """
        wanted = {"offset": offset, "limit": limit, "wait": wait} | ({"host": host} if host else {})
        wanted |= {"attempt": attempt} if attempt else {}
        wanted |= {} if before is None else {"before": before}
        answer = self._send("read_log", _target("read_log", ref, query=wanted), None, wait)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        following = int(headers.get("x-smx-offset", offset + len(answer.body)))
        return LogChunk(
            data=answer.body,
            offset=following,
            total=int(headers.get("x-smx-total", following)),
            final=headers.get("x-smx-final") == "1",
            host=headers.get("x-smx-host", host),
            attempt=int(headers.get("x-smx-attempt", attempt or 1)),
            attempts=int(headers.get("x-smx-attempts", attempt or 1)),
        )

    def metrics(self, ref: str) -> JobMetrics:
        """Return what a job's logs contain: its progress, all points of its metrics, notes."""
        return self._request("get_metrics", JobMetrics, ref)

    def usage(self, ref: str, host: str = "", since: float = 0.0) -> JobUsage:
        """Read what a job used of its hosts, or of one, after a moment (seconds since the epoch)."""
        wanted = {"since": since} | ({"host": host} if host else {})
        return self._request("get_usage", JobUsage, ref, query=wanted)

    def pools(self) -> tuple[PoolSummary, ...]:
        """List live pools."""
        return self._request("list_pools", Pools).pools

    def set_keep_alive(self, ref: str, seconds: int) -> PoolSummary:
        """Keep an available pool for ``seconds`` from now; 0 releases it."""
        pool = self._request("extend_pool", PoolSummary, ref, body={"keep_alive": seconds})
        if not seconds:
            self.released_pools.add(pool.id)
        return pool

    def release(self, ref: str) -> PoolSummary:
        """Release a pool."""
        pool = self._request("release_pool", PoolSummary, ref)
        self.released_pools.add(pool.id)
        return pool

    def changes(self, since: int, seconds: float) -> Changes:
        """Wait for what happened after ``since``, ``seconds`` at most."""
        return self._request("list_changes", Changes, query={"since": since, "wait": seconds}, wait=seconds)

    def interpreters_of(self, engine: str) -> Literal["local", "remote"]:
        """Return where the interpreters are that ``--python`` names on an engine."""
        return self.engine_info(engine).interpreters

    def engine_info(self, engine: str) -> EngineInfo:
        """Return the facts of an engine; one request for each.

        An unknown engine counts as one of this machine: its submission is refused, with the existing names.
        """
        found = self._engine_infos.get(engine)
        if found is None:
            try:
                found = self._request("get_engine", EngineInfo, engine)
            except ResourceNotFoundError:
                return EngineInfo(name=engine)  # so does a controller of an earlier version, which has no other ones
            self._engine_infos[engine] = found
        return found

    def image_engine(self) -> str:
        """Name the engine whose hosts are made of images, for jobs that name only an image; "" if not exactly one is.

        An engine that is not installed completely counts as one without images. A controller of an earlier version
        does not list them.
        """
        found = []
        with suppress(ResourceNotFoundError):
            for name in self.engine_names().engines:
                with suppress(RefusedError):
                    if self.engine_info(name).images:
                        found.append(name)
        return found[0] if len(found) == 1 else ""

    def engine_names(self, engine: str = "") -> EngineNames:
        """List the names of engines; with ``engine`` also those of its machines, environments and instance types.

        :raises ResourceNotFoundError: there is no such engine.
        """
        return self._request("list_engine_names", EngineNames, query={"engine": engine} if engine else None)

    def instance_types(self) -> TypesListing:
        """List the instance types that jobs may ask for."""
        return self._request("list_instance_types", TypesListing)

    def doctor(self, engine: str = "") -> dict[str, Any]:
        """Return the controller's part of the doctor page, or only one engine's report.

        :raises ResourceNotFoundError: there is no such engine.
        """
        return self._request("diagnose", dict[str, Any], query={"engine": engine} if engine else None, wait=_LOOK_LIMIT)

    def fix(self, engine: str = "") -> dict[str, list[str]]:
        """Run the cleanup of engines, or of one; return what was removed, by engine.

        :raises ResourceNotFoundError: there is no such engine.
        """
        return self._request("fix", dict[str, list[str]], query={"engine": engine} if engine else None, wait=_FIX_LIMIT)

    def close(self) -> None:
        """Break off what threads wait for; from then on nothing is asked and no controller is started."""
        self._closed = True
        for connection in tuple(self._connections):
            connection.abort()
        self.close_thread_connections()

    def close_thread_connections(self) -> None:
        """Close the connections that this thread opened or shares."""
        self._quick.close()
        waiting: Connection | None = getattr(self._waiting, "connection", None)
        if waiting is not None:
            waiting.close()

    def _request(
        self,
        action: Action,
        kind: type[_Model],
        *refs: str,
        query: Mapping[str, object] | None = None,
        body: object = None,
        wait: float = 0.0,
    ) -> _Model:
        target = _target(action, *refs, query=query)
        submitted = str(body.get("id", "")) if isinstance(body, dict) else ""
        answer = self._send(action, target, None if body is None else _encode(body), wait, submitted)
        try:
            return _decode(answer.body, kind)
        except msgspec.DecodeError as error:
            raise UnavailableError(
                f"The controller answered {METHODS[action]} {target} with an invalid {kind.__name__}: {error}.",
                cure="It may have another version. Check it with `%smx doctor`.",
            ) from error

    def _send(self, action: Action, target: str, body: bytes | None, wait: float, submitted: str = "") -> Response:
        """Send a request and give its answer; ``submitted`` is the id of the job or array that it creates."""
        if self._closed:
            raise UnavailableError("This client was closed.")
        if body is not None and len(body) > MAX_SPEC_BYTES:
            raise _too_large(len(body))
        connection = self._connection(waits=wait > 0)
        method, may_repeat = METHODS[action], action not in UNREPEATABLE
        tries = AnswerWait(self._repeat, self._start_controller, lambda: self._closed, may_repeat=may_repeat)
        try:
            answer = tries.exchange(lambda: connection.exchange(method, target, body, self._timeout + wait))
        except UnavailableError as error:
            if tries.may_have_been_received:
                raise add_doubt(error, submitted) from error
            raise
        except (OSError, http.client.HTTPException) as error:
            sent = tries.may_have_been_received or isinstance(error, TimeoutError)
            raise request_errors.no_answer_error(
                self.path, error, action, submitted if sent else "", waited=self._timeout + wait
            ) from error
        if answer.status >= _ERROR:
            raise from_body(_error_body(answer))
        return answer

    def _start_controller(self) -> None:
        self.before_start()
        self._start()

    def _connection(self, *, waits: bool) -> Connection:
        if not waits:
            return self._quick
        found: Connection | None = getattr(self._waiting, "connection", None)
        if found is None:
            found = self._waiting.connection = Connection(self.path)
            self._connections.add(found)
        return found


def _do_nothing() -> None:
    pass


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Making a decoder costs more than using it."""


def _decode(body: bytes, kind: type[_Model]) -> _Model:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    found: _Model = decoder.decode(body)
    return found


def _encode(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        part = error.object[max(0, error.start - 10) : error.end + 10]
        raise ValidationError(
            f"The job contains a lone surrogate, which is not valid Unicode: {part!r}.",
            field="source",
            value=repr(part),
            rule="Text must be encodable as UTF-8.",
            cure="Check file names and text that was read with errors='surrogateescape'.",
        ) from error


def _too_large(size: int) -> ValidationError:
    return ValidationError(
        f"The job has {format_size(size)} of code and settings.",
        field="source",
        value=size,
        rule=f"The maximum is {format_size(MAX_SPEC_BYTES)}.",
        cure="Pass data with --input or --send, and code with --source-dir.",
    )


def _error_body(answer: Response) -> ErrorBody:
    try:
        return msgspec.json.decode(answer.body, type=ErrorBody)
    except msgspec.DecodeError:
        text = answer.body[:200].decode(errors="replace")
        return ErrorBody(code="InternalServerError", message=f"The controller returned status {answer.status}: {text}")


def _path(ref: object) -> str:
    if isinstance(ref, str) and ref and ref.isprintable():
        return quote(ref, safe="")
    raise ValidationError(
        f"{format_value(ref)} is not a job, array or pool.",
        field="job",
        value=format_value(ref),
        rule="It is a name, an ID, or the start of either, as text.",
        cure="`%smx jobs` and `%smx pools` list them.",
    )


def _target(action: Action, *refs: str, query: Mapping[str, object] | None) -> str:
    path = controller_path(action, *map(_path, refs))
    # An argument of a command line may be no UTF-8.
    return path if query is None else f"{path}?{urlencode(query, errors='surrogateescape')}"

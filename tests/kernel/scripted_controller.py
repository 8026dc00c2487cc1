"""A controller that speaks the documented API over its unix socket and runs nothing: the test says what happens."""

from __future__ import annotations

import os
import socketserver
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import scripted_arrays
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import ResourceNotFoundError, SmxError, UnavailableError
from jupyter_smx.model.name import job_name
from jupyter_smx.model.records.event import Changes, Event, PoolSummary
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.reports import Bill, EngineNames, Why
from jupyter_smx.model.spec.instance import catalogue, look_up
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus, is_final

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.model.records.job import JobSummary
    from jupyter_smx.model.results.progress import JobMetrics
    from jupyter_smx.model.spec.array import ArraySummary

_KNOWN = catalogue()


class _Wish(msgspec.Struct):
    id: str
    spec: JobSpec


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    fake: ScriptedController


class ScriptedController:
    """State of the fake world; every change goes through :meth:`change` and becomes an event."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.costs: dict[str, float] = {}
        self.logs: dict[tuple[str, str], bytes] = {}
        self.gaps: dict[tuple[str, str], tuple[int, int]] = {}
        """Bytes that are left out of a log: the first one, and the one behind the last."""
        self.pools: dict[str, PoolSummary] = {}
        self.arrays: dict[str, ArraySummary] = {}
        self.metrics: dict[str, JobMetrics] = {}
        self.events: list[Event] = []
        self.forgotten = 0
        self.requests: list[str] = []
        self.targets: list[str] = []
        self.connections = 0
        self.remote_interpreters: set[str] = set()
        """Engines whose hosts have interpreters of their own."""
        self.image_engines: set[str] = set()
        """Engines whose hosts are made of images."""
        self.engine_names: dict[str, EngineNames] = {}
        """What it lists for completion, by the engine of the request."""
        self.on_submit: Callable[[ScriptedController, Job], None] | None = None
        self.answers_before_hanging_up: int | None = None
        self.lost_answers = 0
        """Answers that are not sent, although their requests were done."""
        self._news = threading.Condition()
        self._starting = threading.Lock()
        self._server: _Server | None = None
        self._sockets: set[Any] = set()
        self._asking: set[Any] = set()

    def start(self, report: object = None) -> None:
        """Listen; two that start it at once get one, as with the real controller's lock. No start is slow."""
        del report
        controller_launch.ensure_folders()
        with self._starting:
            if self._server:
                return
            with suppress(FileNotFoundError):
                Path(controller_launch.socket_address()).unlink()
            self._server = server = _Server(controller_launch.socket_address(), _Handler)
            server.fake = self
        threading.Thread(target=server.serve_forever, args=(0.01,), name="fake-controller", daemon=True).start()

    def kill(self) -> None:
        """Go away as after kill -9: open connections break, the socket's file stays."""
        with self._starting:
            going, self._server = self._server, None
        if going:
            going.shutdown()
            going.server_close()
        for kept in tuple(self._sockets):
            with suppress(OSError):
                kept.shutdown(2)
        with self._news:
            self._news.notify_all()

    def stop(self) -> None:
        self.kill()
        with suppress(FileNotFoundError):
            Path(controller_launch.socket_address()).unlink()

    def change(self, job_id: str, **fields: Any) -> Job:
        with self._news:
            job = replace(self.jobs[job_id], **fields)
            self.jobs[job_id] = job
            self.events.append(Event(seq=len(self.events) + 1, at=time.time(), job=summary_of(job)))
            self._news.notify_all()
            return job

    def tell(self, summary: JobSummary) -> None:
        """Announce what no record holds: progress, expected end."""
        with self._news:
            self.events.append(Event(seq=len(self.events) + 1, at=time.time(), job=summary))
            self._news.notify_all()

    def change_unseen(self, job_id: str, **fields: Any) -> None:
        """Change a job whose event is dropped before any client requests it."""
        with self._news:
            self.jobs[job_id] = replace(self.jobs[job_id], **fields)
            self.forgotten = len(self.events) + 1
            self.events.append(Event(seq=self.forgotten, at=time.time()))
            self._news.notify_all()

    def delete(self, job_id: str) -> None:
        with self._news:
            job = self.jobs.pop(job_id)
            self.events.append(Event(seq=len(self.events) + 1, at=time.time(), job=summary_of(job)))
            self._news.notify_all()

    def guests(self) -> int:
        """Count the requests that wait for their answer now."""
        return len(self._asking)

    def run(self, job_id: str) -> Job:
        return self.change(
            job_id,
            state=SecondaryStatus.TRAINING,
            why=Why(start="cold", sentence="Cold: there was no warm pool."),
            timings={"first_line": time.time()},
        )

    def end(self, job_id: str, state: SecondaryStatus = SecondaryStatus.COMPLETED, **fields: Any) -> Job:
        return self.change(job_id, state=state, ended_at=time.time(), **fields)

    def write(self, job_id: str, text: str, host: str = "algo-1") -> None:
        with self._news:
            self.logs[job_id, host] = self.logs.get((job_id, host), b"") + text.encode()
            self._news.notify_all()

    def note(self, target: str) -> None:
        with self._news:
            self.targets.append(target)
            self._news.notify_all()

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        with self._news:
            return self._news.wait_for(lambda: condition() or self._server is None, seconds)

    def find(self, ref: str) -> Job:
        named = [job for job in self.jobs.values() if ref in (job.id, job.name, job.spec.base_name)]
        begun = [job for job in self.jobs.values() if job.id.startswith(ref) or job.name.startswith(ref)]
        if not named and len(begun) != 1:
            raise ResourceNotFoundError(f"There is no job {ref!r}, or there are several.")
        return (named or begun)[-1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.fake.connections += 1
        self.fake._sockets.add(self.request)

    def finish(self) -> None:
        self.fake._sockets.discard(self.request)
        with suppress(OSError):
            super().finish()

    @property
    def fake(self) -> ScriptedController:
        return self.server.fake

    def log_message(self, *_: object) -> None:
        pass

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()
            return
        self.close_connection = True

    def _do(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.fake.note(self.path)
        self.fake.requests.append(f"{self.command} {url.path}")
        if self.fake.answers_before_hanging_up is not None:
            self.fake.answers_before_hanging_up -= 1
            if self.fake.answers_before_hanging_up < 0:
                self.fake.answers_before_hanging_up = None
                self.close_connection = True
                return
        parts = [unquote(part) for part in url.path.strip("/").split("/")][1:]
        self.fake._asking.add(self.request)
        try:
            status, answer, headers = self._route(parts, query, body)
        except SmxError as error:
            status, answer, headers = error.status, error.body(), {}
        finally:
            self.fake._asking.discard(self.request)
        if self.fake.lost_answers:
            self.fake.lost_answers -= 1
            self.close_connection = True
            return
        data = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _do  # noqa: N815 - names of the base class

    def _route(  # noqa: C901, PLR0911, PLR0912 - one line for each row of the documented table
        self, parts: list[str], query: dict[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        fake = self.fake
        match self.command, parts:
            case "GET", []:
                greeting = {"version": "0", "protocol": 1, "pid": os.getpid(), "epoch": 1, "seq": len(fake.events)}
                return 200, greeting, {}
            case "POST", ["jobs"]:
                return self._submit(msgspec.json.decode(body, type=_Wish))
            case "POST", ["plan"]:
                packed = msgspec.json.decode(body)["spec"]["send"]
                sent = packed and [{"kind": "variables", "name": ", ".join(packed["sizes"]), "size": packed["size"]}]
                plan = {"sentence": "A cold start on local.", "why": None, "engine_request": {"hosts": 1}}
                return 200, {**plan, "sent": sent or []}, {}
            case "GET", ["jobs"]:
                tasks = query.get("tasks", "1") == "1"
                found = [job for job in reversed(fake.jobs.values()) if tasks or job.spec.array is None]
                newest = found[: int(query.get("limit", 20))]
                return 200, {"jobs": [summary_of(job, cost=fake.costs.get(job.id)) for job in newest]}, {}
            case "GET", ["jobs", ref]:
                job = fake.find(ref)
                fake.wait_for(lambda: is_final(fake.jobs[job.id].state), float(query.get("wait", 0)))
                cost = fake.costs.get(job.id)
                bill = Bill(price_per_hour=None, billable_seconds=1.0, retained_seconds=0.0, cost=cost)
                return (
                    200,
                    msgspec.to_builtins(fake.jobs[job.id]) | {"cost": cost, "bill": msgspec.to_builtins(bill)},
                    {},
                )
            case "POST", ["jobs", ref, "stop"]:
                return 200, fake.end(fake.find(ref).id, SecondaryStatus.STOPPED), {}
            case "GET", ["jobs", ref, "logs"]:
                return self._log(fake.find(ref), query)
            case "GET", ["changes"]:
                return self._changes(int(query["since"]), float(query.get("wait", 0)))
            case "GET", ["engines"] if (engine := query.get("engine", "")) in fake.engine_names:
                return 200, fake.engine_names[engine], {}
            case "GET", ["engines"]:  # as from a controller without the route
                raise ResourceNotFoundError("There is no such route.")
            case "GET", ["engines", name]:
                whose = "remote" if name in fake.remote_interpreters else "local"
                info = {"interpreters": whose, "same_paths": whose == "local", "images": name in fake.image_engines}
                return 200, {"name": name, **info}, {}
            case "GET", ["doctor"]:
                return 200, {"isolation": {"mode": "variables", "reason": "not allowed"}, "engines": ["local"]}, {}
            case _, ["arrays", *rest]:
                return scripted_arrays.answer(fake, rest, query, body, self._add)
            case _:
                return self._pools(parts, body)

    def _changes(self, since: int, wait: float) -> tuple[int, Any, dict[str, str]]:
        fake = self.fake
        fake.wait_for(lambda: len(fake.events) > since or since < fake.forgotten, wait)
        if since < fake.forgotten:
            return 200, Changes(events=(), seq=fake.forgotten, reset=True), {}
        return 200, Changes(events=tuple(fake.events[since:]), seq=len(fake.events)), {}

    def _pools(self, parts: list[str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        if parts[-1] == "metrics":
            return 200, self.fake.metrics[self.fake.find(parts[1]).id], {}
        pools = self.fake.pools
        if parts == ["pools"]:
            return 200, {"pools": list(pools.values())}, {}
        if parts[1] not in pools:
            raise ResourceNotFoundError(f"There is no pool {parts[1]!r}.")
        if self.command == "PATCH":
            keep = msgspec.json.decode(body)["keep_alive"]
            pools[parts[1]] = replace(pools[parts[1]], expires_at=time.time() + keep)
            return 200, pools[parts[1]], {}
        return 202, replace(pools.pop(parts[1]), state="Releasing"), {}

    def _submit(self, wish: _Wish) -> tuple[int, Any, dict[str, str]]:
        for group in wish.spec.instance_groups:
            look_up(group, _KNOWN)
        if wish.id in self.fake.jobs:
            return 200, self.fake.jobs[wish.id], {}
        return 201, self._add(wish.id, wish.spec.job_name or job_name(wish.spec.base_name, wish.id), wish.spec), {}

    def _add(self, job_id: str, name: str, spec: JobSpec) -> Job:
        self.fake.jobs[job_id] = Job(id=job_id, name=name, spec=spec, created_at=time.time())
        accepted = self.fake.change(job_id)
        if self.fake.on_submit:
            self.fake.on_submit(self.fake, accepted)
        return accepted

    def _log(self, job: Job, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        fake, host = self.fake, query.get("host", "algo-1")
        attempt = int(query.get("attempt", 0)) or fake.jobs[job.id].attempt
        host = host if attempt == 1 else f"attempt-{attempt}/{host}"
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 262_144))

        def over() -> bool:
            return is_final(fake.jobs[job.id].state) or fake.jobs[job.id].attempt > attempt

        fake.wait_for(lambda: len(fake.logs.get((job.id, host), b"")) > offset or over(), float(query.get("wait", 0)))
        if fake._server is None:
            raise UnavailableError("The fake is away.")
        data = fake.logs.get((job.id, host), b"")
        # As the controller does: what lies in a gap is passed over, towards where the question goes.
        begin, end = fake.gaps.get((job.id, host), (0, 0))
        if "before" in query:
            last = int(query["before"])
            last = begin if begin < last <= end else last
            offset = max(0, last - limit, end if end <= last else 0)
            limit = last - offset
        elif begin <= offset < end:
            offset = end
        limit = min(limit, begin - offset) if offset < begin else limit
        piece = data[offset : offset + limit]
        headers = {
            "X-Smx-Offset": str(offset + len(piece)),
            "X-Smx-Total": str(len(data)),
            "X-Smx-Final": "1" if over() else "0",
            "X-Smx-Host": host,
            "X-Smx-Attempt": str(attempt),
            "X-Smx-Attempts": str(fake.jobs[job.id].attempt),
        }
        return 200, piece, headers

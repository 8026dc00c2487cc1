"""A fake of the world, not of the client: a small HTTP server on a unix socket that speaks the controller's API.

Run as a script (``python fake_controller.py SOCKET``) it is a controller process that can be killed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import ErrorBody
from jupyter_smx.model.records.event import Changes, Event, PoolSummary
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.status import SecondaryStatus, status_of


class Seen(msgspec.Struct, frozen=True):
    """One request as the controller received it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: dict[str, str] = {}
    waits: bool = False
    """Whether the answer comes at the end of the request's ``wait``, as for a log without new lines."""


def job(number: int = 1, step: SecondaryStatus = SecondaryStatus.TRAINING, **fields: Any) -> JobSummary:
    values = {
        "id": f"{number:012x}",
        "name": f"train-digits-{number}",
        "base_name": "train-digits",
        "kind": "train",
        "engine": "local",
        "instances": "local × 1",
        "status": status_of(step),
        "secondary_status": step,
        "message": "",
        "created_at": 1000.0 + number,
    }
    return JobSummary(**(values | fields))


def pool(number: int = 1, **fields: Any) -> PoolSummary:
    values = {
        "id": f"{number:012x}",
        "name": f"local-{number}",
        "engine": "local",
        "instances": "local × 1",
        "state": "Available",
        "created_at": 1000.0 + number,
        "expires_at": 2000.0 + number,
    }
    return PoolSummary(**(values | fields))


class Endless:
    """An artefact of any size: counts the bytes sent, and whether the receiver makes it wait."""

    path = "/v1/jobs/a/artifacts/endless"
    limit = 200 * 2**20

    def __init__(self) -> None:
        self.sent = 0
        self.waits = asyncio.Event()
        self.over = asyncio.Event()

    async def stream(self, handler: RequestHandler) -> None:
        try:
            while self.sent < self.limit:
                handler.write(bytes(2**20))
                flushed = asyncio.ensure_future(handler.flush())
                done, _ = await asyncio.wait([flushed], timeout=0.5)
                if not done:
                    self.waits.set()
                await flushed
                self.sent += 2**20
        except StreamClosedError:
            pass
        finally:
            self.over.set()


class FakeController:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answers: dict[tuple[str, str], Answer] = {}
        self.jobs: dict[str, JobSummary] = {}
        self.pools: dict[str, PoolSummary] = {}
        self.events: list[Event] = []
        self.seq = 0
        self.forgotten_before = 0
        self.endless = Endless()
        self._news = asyncio.Condition()
        self._server: HTTPServer | None = None
        self._path: Path | None = None

    def listen(self, path: Path | None = None) -> None:
        """Listen at a path, or where clients of the data folder expect a controller."""
        if path is None:
            controller_launch.ensure_folders()
            path = Path(controller_launch.socket_address())
        application = Application([(r"(/v1/.*)", _Handler, {"fake": self})])
        self._server = HTTPServer(application)
        self._server.add_socket(bind_unix_socket(str(path), mode=0o600))
        self._path = path

    async def close(self) -> None:
        """End like a process: connections break, and the socket file stays until the next controller removes it."""
        if self._server is None:
            return
        self._server.stop()
        await self._server.close_all_connections()
        self._server = None
        assert self._path is not None
        self._path.unlink(missing_ok=True)

    def answer(self, method: str, path: str, status: int, body: Any = b"", **headers: str) -> None:
        encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[method, path] = Answer(status, encoded, names)

    def refuse(self, method: str, path: str, status: int, code: str, message: str) -> None:
        self.answer(method, path, status, ErrorBody(code=code, message=message))

    async def happen(self, thing: JobSummary | PoolSummary) -> Event:
        """Change a job or a pool, and wake all waiting requests."""
        async with self._news:
            self.seq += 1
            is_job = isinstance(thing, JobSummary)
            event = Event(seq=self.seq, at=time.time(), **{"job" if is_job else "pool": thing})
            (self.jobs if is_job else self.pools)[thing.id] = thing
            self.events.append(event)
            self._news.notify_all()
        return event

    async def changes(self, since: int, wait: float) -> Changes:
        async with self._news:
            if self.seq <= since:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._news.wait_for(lambda: self.seq > since), wait)
        events = tuple(event for event in self.events if event.seq > since)
        return Changes(events=events, seq=self.seq, reset=since < self.forgotten_before)

    def asked(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]


class _Handler(RequestHandler):
    def initialize(self, fake: FakeController) -> None:
        self.fake = fake

    async def answer_request(self, path: str) -> None:
        method = self.request.method or ""
        path = self.request.path
        query = {name: self.get_query_argument(name, strip=False) for name in self.request.query_arguments}
        headers = dict(self.request.headers)
        self.fake.seen.append(Seen(method, path, query, self.request.body, headers))
        if path == Endless.path:
            await self.fake.endless.stream(self)
            return
        recorded = self.fake.answers.get((method, path))
        if recorded is not None:
            if recorded.waits:
                await self.fake.changes(self.fake.seq, float(query.get("wait", "0")))
            self.set_status(recorded.status)
            for name, value in recorded.headers.items():
                self.set_header(name, value)
            self.finish(recorded.body) if recorded.status != 204 else self.finish()
        else:
            await self._live(method, path, query)

    get = post = patch = delete = answer_request

    async def _live(self, method: str, path: str, query: dict[str, str]) -> None:
        fake = self.fake
        body: Any
        if (method, path) == ("GET", "/v1/"):
            body = {"version": "0", "protocol": 1, "pid": 1, "epoch": 1, "seq": fake.seq, "data_dir": "/"}
        elif (method, path) == ("GET", "/v1/jobs"):
            status, newest = query.get("status"), [*fake.jobs.values()][::-1]
            rows = [job for job in newest if status in {None, job.status.value}]
            after = next((at for at, job in enumerate(rows, 1) if job.id == query.get("before")), 0)
            body = {"jobs": rows[after : after + int(query.get("limit", "100"))]}
        elif (method, path) == ("GET", "/v1/pools"):
            body = {"pools": list(fake.pools.values())}
        elif (method, path) == ("GET", "/v1/changes"):
            body = await fake.changes(int(query["since"]), float(query.get("wait", "0")))
        elif (method, path) == ("POST", "/v1/jobs"):
            self.set_status(201)
            body = {"id": msgspec.json.decode(self.request.body)["id"]}
        else:
            self.set_status(404)
            body = ErrorBody(code="ResourceNotFound", message=f"There is no {path}.")
        self.finish(msgspec.json.encode(body))


async def _serve(path: Path) -> None:
    fake = FakeController()
    fake.listen(path)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))

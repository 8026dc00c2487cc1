"""A client of one agent for tests: it sends frames over any byte stream of an engine, and records events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_smx.agent import wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Handle

_PATIENCE = 60.0


class AgentError(Exception):
    """The agent answered with ``ok: false``; ``code`` is the kind of refusal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class JobEnd(NamedTuple):
    """End of one job: the record of ``end.json`` and its whole log."""

    record: dict[str, Any]
    log: bytes

    @property
    def text(self) -> str:
        """Return the log as text."""
        return self.log.decode(errors="replace")


def new_job_id() -> str:
    """Return an id that no job has had."""
    return secrets.token_hex(8)


def job_spec(source: str, **changes: Any) -> dict[str, Any]:
    """Write the ``spec`` of a small training job around a cell."""
    whole: dict[str, Any] = {
        "name": "contract",
        "kind": "train",
        "source": source,
        "filename": "<train-1>",
        "entry_point": "",
        "arguments": [],
        "command": [],
        "image_workdir": False,
        "contract": "v2",
        "warm_pool": False,
        "hyperparameters": {},
        "environment": {},
        "channels": [],
        "outputs": [],
        "send": None,
        "receive": [],
        "max_run": 120,
        "grace": 5,
        "keep_alive": 300,
        "python_version": "",
        "submitted_at": time.time(),
        "imports": [],
        "requirements": [],
    }
    unknown = changes.keys() - whole.keys()
    if unknown:
        raise TypeError(f"a spec has no {', '.join(sorted(unknown))}")
    return whole | changes


class AgentClient:
    """One stream to one agent; use as ``async with AgentClient(engine, handle, "algo-1") as agent``."""

    def __init__(self, engine: Engine, handle: Handle, host: str = "algo-1", *, epoch: int = 1) -> None:
        self._engine = engine
        self._handle = handle
        self._host = host
        self._epoch = epoch
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[wire.Frame]] = {}
        self._events_changed = asyncio.Condition()
        self.events: list[dict[str, Any]] = []
        self.hello: dict[str, Any] = {}
        self.is_closed = False

    async def __aenter__(self) -> Self:
        """Connect and greet."""
        self._reader, self._writer = await self._engine.connect(self._handle, self._host)
        self._listener = asyncio.create_task(self._listen())
        self.hello = (await self.call("hello", protocol=wire.PROTOCOL, epoch=self._epoch)).header
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hang up."""
        self._listener.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while True:
                frame = await wire.read(self._reader)
                if "re" in frame.header:
                    answer = self._answers.pop(frame.header["re"], None)
                    if answer is not None and not answer.done():
                        answer.set_result(frame)
                    continue
                async with self._events_changed:
                    self.events.append(frame.header)
                    self._events_changed.notify_all()
        except (asyncio.IncompleteReadError, OSError):
            self.is_closed = True
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(self._closed_error())
            async with self._events_changed:
                self._events_changed.notify_all()

    def _closed_error(self, when: str = "") -> ConnectionError:
        """Return the error for an agent that is gone, with its reason if it reported that its host had to end."""
        why = "".join(f": {one['reason']}" for one in self.events if one.get("event") == "spoilt")
        return ConnectionError(f"the agent hung up{when}{why}")

    async def call(self, op: str, **fields: Any) -> wire.Frame:
        """Send a request and wait for the answer.

        :raises AgentError: the agent refuses.
        :raises ConnectionError: the agent closed the connection instead.
        """
        number = next(self._numbers)
        answer: asyncio.Future[wire.Frame] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._writer.write(wire.encode({"id": number, "op": op, **fields}))
        await self._writer.drain()
        frame = await asyncio.wait_for(answer, _PATIENCE)
        if not frame.header.get("ok"):
            raise AgentError(str(frame.header.get("code")), str(frame.header.get("message")))
        return frame

    async def wait_for_event(
        self, kind: str, job: str = "", fits: Callable[[dict[str, Any]], bool] = lambda _event: True
    ) -> dict[str, Any]:
        """Wait for an event of that kind that ``fits``, about that job when one is named; an earlier one counts.

        :raises ConnectionError: the agent hung up instead.
        """

        def found() -> dict[str, Any] | None:
            of_kind = (one for one in self.events if one.get("event") == kind and job in ("", one.get("job")))
            return next(filter(fits, of_kind), None)

        async with self._events_changed:
            await asyncio.wait_for(
                self._events_changed.wait_for(lambda: found() is not None or self.is_closed), _PATIENCE
            )
        event = found()
        if event is None:
            raise self._closed_error(f" before {kind!r} of job {job!r}")
        return event

    async def run(self, source: str, *, job: str = "", lease: int = 1, **changes: Any) -> str:
        """Start a job and give its id."""
        job = job or new_job_id()
        await self.call("run", job=job, lease=lease, spec=job_spec(source, **changes))
        return job

    async def wait_for_outcome(self, job: str) -> JobEnd:
        """Wait until a job that was started over this stream has ended, and read what it wrote."""
        record = (await self.wait_for_event("ended", job))["record"]
        return JobEnd(record, await self.read(job, "log"))

    async def run_and_wait(self, source: str, *, lease: int = 1, **changes: Any) -> JobEnd:
        """Run a cell to its end."""
        return await self.wait_for_outcome(await self.run(source, lease=lease, **changes))

    async def read(self, job: str, name: str, offset: int = 0) -> bytes:
        """Read a file of the job's spool from ``offset`` to its end of now."""
        pieces: list[bytes] = []
        while True:
            frame = await self.call("read", job=job, name=name, offset=offset, limit=wire.MAX_BODY)
            if not frame.body:
                return b"".join(pieces)
            pieces.append(frame.body)
            offset += len(frame.body)

    async def wait_for_log(self, job: str, wanted: bytes) -> bytes:
        """Wait until a job has written ``wanted``, and return its log at that time.

        :raises ConnectionError: the agent closed the connection, or the job ended, before.
        """
        while True:
            known = len(self.events)
            log = await self.read(job, "log")
            if wanted in log:
                return log
            if any(one.get("event") == "ended" and one.get("job") == job for one in self.events[:known]):
                raise ConnectionError(f"job {job} ended before it wrote {wanted!r}: {log!r}")
            await self._wait_for_more_events(known)

    async def _wait_for_more_events(self, known: int) -> None:
        async with self._events_changed:
            await asyncio.wait_for(
                self._events_changed.wait_for(lambda: len(self.events) > known or self.is_closed), _PATIENCE
            )
        if self.is_closed:
            raise self._closed_error()

"""A host in this process: it implements the agent's protocol on a real socket; tests control its jobs."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from jupyter_smx.agent.host import end_record, notice
from jupyter_smx.agent.host.idle_deadline import LINGER
from jupyter_smx.agent.job.controller_clock import ControllerClock
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.wire import PROTOCOL, VERSION, encode, read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from jupyter_smx.agent.frames import EndRecord


Header = dict[str, Any]
_PHASE_ENDED = "ended"


class Refusal(Exception):  # noqa: N818 - it is an answer of the agent
    """The agent's refusal: its code."""


@dataclass
class FakeScript:
    """Actions of a job without a request from outside.

    ``honours_stop``: it ends at SIGTERM; otherwise at SIGKILL, a grace later. ``starts_after``: seconds from the run
    frame to its first line.
    """

    honours_stop: bool = True
    starts_after: float = 0.0


@dataclass
class FakeRun:
    """One job on one host."""

    job: str
    lease: int
    spec: Mapping[str, Any]
    at: dict[str, float | None]
    clock: ControllerClock
    phase: str = "staging"
    record: Header | None = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def drop_timers(self) -> None:
        """Drop all pending timers."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


class HostWorld(Protocol):
    """Interface of a host to its world."""

    isolation: Header

    def clock(self) -> float:
        """Return seconds since the epoch by the clock of the controller's machine."""

    def remote_clock(self) -> float:
        """Return seconds since the epoch by the clock of the hosts' machine."""

    def monotonic(self) -> float:
        """Return seconds of a clock that is never changed."""

    def spool(self, cluster: str, host: str) -> Path:
        """Return the spool folder of a host."""

    def script(self, job: str) -> FakeScript:
        """Return the actions of a job."""

    def count_start(self, job: str, host: FakeHost) -> None:
        """Count a start of a job's code."""


class FakeHost:
    """One host with its agent; ``alive`` until it is killed, released, or its own deadline comes."""

    python = "3.11"

    def __init__(
        self, world: HostWorld, cluster: str, name: str, idle_limit: float, keep_uncollected: float = 0.0
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.name = name
        self.alive = True
        self.is_closed = False
        """Its time is over, and it lives only to keep results."""
        self.is_noticed = False
        """True if its machine will be taken away."""
        self.thawed = asyncio.Event()
        """Cleared while its agent is stopped: it accepts connections and reads nothing."""
        self.thawed.set()
        self._keep_uncollected = keep_uncollected
        self.epoch = 0
        self.highest_lease = 0
        self.runs: dict[str, FakeRun] = {}
        self.forgotten_jobs: set[str] = set()
        self.requests: list[Header] = []
        """All ``run`` requests."""
        self.preload: Header = {"loaded": [], "failed": {}, "pending": []}
        self._streams: dict[asyncio.StreamWriter, int | None] = {}
        self._deadline: asyncio.TimerHandle | None = None
        self.provided: list[str] = []
        """Items that a controller has sent, in their order."""
        self._handlers: dict[str, Callable[[Header], Header]] = {
            "run": self._run,
            "stop": self._stop,
            "forget": self._forget,
            "deadline": self._set_deadline,
            "ping": lambda _header: {"now": self.world.remote_clock()},
            "have": self._have,
            "preload": lambda _header: {},
            "put": lambda header: {"offset": header["offset"] + header["size"]},
            "place": self._place,
        }
        self._expire_in(idle_limit)

    @property
    def spool(self) -> Path:
        """Return the folder with the results of this host's jobs."""
        return self.world.spool(self.cluster, self.name)

    def running(self) -> FakeRun | None:
        """Return the job that runs on this host."""
        return next((run for run in self.runs.values() if run.phase != _PHASE_ENDED), None)

    # Its end

    def crash(self) -> None:
        """End as at a power failure: jobs, streams and deadline are gone, the disk stays."""
        self.alive = False
        for run in self.runs.values():
            run.drop_timers()
        if self._deadline is not None:
            self._deadline.cancel()
        self.close_streams()

    def give_notice(self, grace: float) -> None:
        """Send the notice of an agent whose machine is taken away in ``grace`` seconds, and end by then."""
        if self.is_noticed or not self.alive:
            return
        self.is_noticed = True
        self.send_event({"event": "notice", "seconds": grace})
        run, loop = self.running(), asyncio.get_running_loop()
        if run is not None and self.world.script(run.job).honours_stop:
            self._signalled(run, "interrupted")
        elif run is not None:
            run.timers.append(loop.call_later(notice.job_seconds(grace), self._signalled, run, "interrupted"))
        elif not self.runs:
            loop.call_soon(self.crash)
        loop.call_later(grace, self.crash)

    def close_streams(self) -> None:
        """Break every stream; the agent lives on."""
        for writer in [*self._streams]:
            writer.close()

    def _expire_in(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = None if seconds is None else loop.call_later(max(0.0, seconds), self._end)

    def _end(self) -> None:
        """Handle the deadline: end, or keep results that no controller has read."""
        if self.is_closed or not self.runs or not self._keep_uncollected:
            self.crash()
            return
        self.is_closed = True
        self._expire_in(self._keep_uncollected)
        self.close_streams()

    def _remaining_seconds(self) -> float | None:
        if self._deadline is None or self.running() is not None:
            return None
        return max(0.0, self._deadline.when() - asyncio.get_running_loop().time())

    # The wire

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one stream until it ends."""
        self._streams[writer] = None
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while self.alive and not writer.is_closing():
                frame = await read(reader)
                await self.thawed.wait()
                if not writer.is_closing():
                    self._answer(writer, frame.header)
        self._streams.pop(writer, None)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _answer(self, writer: asyncio.StreamWriter, header: Header) -> None:
        about = {"re": header["id"]} | {key: header[key] for key in ("job", "lease") if key in header}
        try:
            self._authorize(writer, header)
            if header["op"] == "hello":
                writer.write(encode(about | {"ok": True} | self._hello(writer, header)))
            elif header["op"] == "read":
                reply, body = self._read(header)
                writer.write(encode(about | {"ok": True} | reply, body))
            else:
                writer.write(encode(about | {"ok": True} | self._handlers[header["op"]](header)))
        except Refusal as no:
            writer.write(encode(about | {"ok": False, "code": str(no), "message": f"{header['op']} is refused."}))

    def _authorize(self, writer: asyncio.StreamWriter, header: Header) -> None:
        epoch = header["epoch"] if header["op"] == "hello" else self._streams.get(writer)
        if epoch is None:
            raise Refusal("Refused")
        if epoch < self.epoch:
            raise Refusal("Fenced")

    def _hello(self, writer: asyncio.StreamWriter, header: Header) -> Header:
        self.epoch = header["epoch"]
        for other, epoch in [*self._streams.items()]:
            if other is not writer and epoch is not None:
                other.close()
        self._streams[writer] = self.epoch
        return {
            "protocol": PROTOCOL,
            "version": VERSION,
            "python": self.python,
            "pid": 1,
            "host": self.name,
            "now": self.world.remote_clock(),
            "isolation": self.world.isolation,
            "start_method": "fork",
            "preload": self.preload,
            "deadline": 0.0 if self.is_closed or self.is_noticed else self._remaining_seconds(),
            "closed": self.is_closed or self.is_noticed,
            "jobs": {
                run.job: {"phase": run.phase, "lease": run.lease, "log": 0, "at": run.at} for run in self.runs.values()
            },
        }

    def send_event(self, header: Header) -> None:
        """Send an event over every stream that was greeted."""
        for writer, epoch in self._streams.items():
            if epoch is not None and not writer.is_closing():
                writer.write(encode(header))

    def _find_run(self, header: Header) -> FakeRun:
        run = self.runs.get(header["job"])
        if run is None:
            raise Refusal("ResourceNotFound")
        if header["lease"] != run.lease:
            raise Refusal("Fenced")
        return run

    # What it is asked

    def _have(self, header: Header) -> Header:
        here = [item for item in header["items"] if item in self.provided]
        return {"root": "/provided", "items": here, "files": [], "partial": {}}

    def _place(self, header: Header) -> Header:
        self.provided.append(header["item"])
        return {"path": f"/provided/items/{header['item']}/{header['name']}"}

    def _run(self, header: Header) -> Header:
        self.requests.append(header)
        job, lease = header["job"], header["lease"]
        if job in self.runs:
            return {"phase": self._find_run(header).phase}
        if lease < self.highest_lease:
            raise Refusal("Fenced")
        if job in self.forgotten_jobs:
            return {"phase": _PHASE_ENDED}
        if self.is_closed or self.is_noticed:
            raise Refusal("ServiceUnavailable")
        if self.running() is not None:
            raise Refusal("Busy")
        self.highest_lease = lease
        world = self.world
        clock = ControllerClock(float(header.get("clock_ahead", 0.0)), world.remote_clock, world.monotonic)
        at = {"received": clock.now(), "awake": None, "first_line": None, "exited": None, "ended": None}
        run = self.runs[job] = FakeRun(job, lease, header["spec"], at, clock)
        (self.spool / job).mkdir(parents=True, exist_ok=True)
        self._expire_in(None)
        script = self.world.script(job)
        run.timers.append(asyncio.get_running_loop().call_later(script.starts_after, self._begin, run))
        return {"phase": run.phase}

    def _begin(self, run: FakeRun) -> None:
        now = run.clock.now()
        # The log exists before a process has the job: without a log the code never began.
        (self.spool / run.job / host_layout.JOB_LOG).touch()
        run.phase = "running"
        run.at |= {"awake": now, "first_line": now}
        self.world.count_start(run.job, self)
        moments = {key: value for key, value in run.at.items() if value is not None}
        self.send_event({"event": "first_line", "job": run.job, "lease": run.lease, "at": moments})
        late = asyncio.get_running_loop().call_later(run.spec["max_run"], self._signalled, run, "max_runtime")
        run.timers.append(late)

    def _stop(self, header: Header) -> Header:
        run = self._find_run(header)
        if run.phase in {"staging", "running"}:
            if self.world.script(run.job).honours_stop:
                self._signalled(run, header["cause"])
            else:
                grace = asyncio.get_running_loop().call_later(header["grace"], self._signalled, run, header["cause"])
                run.timers.append(grace)
        return {"phase": run.phase}

    def _signalled(self, run: FakeRun, cause: str) -> None:
        self.end_run(run, cause=cause, signal=int(signal.SIGTERM))

    def _forget(self, header: Header) -> Header:
        run = self.runs.get(header["job"])
        if run is not None and run.phase != _PHASE_ENDED:
            raise Refusal("Busy")
        self.runs.pop(header["job"], None)
        self.forgotten_jobs.add(header["job"])
        shutil.rmtree(self.spool / header["job"], ignore_errors=True)
        if (self.is_closed or self.is_noticed) and not self.runs:
            asyncio.get_running_loop().call_soon(self.crash)
        return {}

    def _set_deadline(self, header: Header) -> Header:
        if self.running() is None and not self.is_closed:
            self._expire_in(header["seconds"])
        return {"deadline": self._remaining_seconds()}

    def _read(self, header: Header) -> tuple[Header, bytes]:
        try:
            content = (self.spool / header["job"] / header["name"]).read_bytes()
        except OSError as error:
            raise Refusal("ResourceNotFound") from error
        piece = content[header["offset"] : header["offset"] + header["limit"]]
        return {"total": len(content), "offset": header["offset"]}, piece

    # The end of a job

    def end_run(
        self,
        run: FakeRun,
        *,
        cause: str = "exit",
        exit_code: int | None = None,
        signal: int | None = None,
        exception: Header | None = None,
        artifacts: Mapping[str, bytes] | None = None,
        errors: Sequence[str] = (),
    ) -> None:
        """End a job: write the record to the disk before any event is sent."""
        if run.phase == _PHASE_ENDED:
            return
        run.drop_timers()
        run.at |= {"exited": run.at["exited"] or run.clock.now(), "ended": run.clock.now()}
        run.record = {
            "job": run.job,
            "lease": run.lease,
            "host": self.name,
            "cause": cause,
            "exit_code": exit_code,
            "signal": signal,
            "failure": "",
            "reason": "",
            "message": "",
            "exception": exception,
            "at": run.at,
            "log": self._log_size(run),
            "samples": 0,
            "usage": {},
            "hash_seed": "",
            "artifacts": [
                {"name": name, "path": f"{host_layout.ARTIFACTS}/{name}", "size": len(content)}
                for name, content in (artifacts or {}).items()
            ],
            "received": {},
            "errors": list(errors),
            "left_behind": [],
            "modules": [],
        }
        text, told = end_record.fit_event(cast("EndRecord", run.record))
        self._write(run, text, artifacts or {})
        run.phase = _PHASE_ENDED
        self._expire_in(max(float(run.spec["keep_alive"]), LINGER))
        self.send_event({"event": "ended", "job": run.job, "lease": run.lease, **told})

    def _log_size(self, run: FakeRun) -> int:
        log = self.spool / run.job / host_layout.JOB_LOG
        return log.stat().st_size if log.exists() else 0

    def _write(self, run: FakeRun, record: str, artifacts: Mapping[str, bytes]) -> None:
        folder = self.spool / run.job
        (folder / host_layout.ARTIFACTS).mkdir(parents=True, exist_ok=True)
        for name, content in artifacts.items():
            path = folder / host_layout.ARTIFACTS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (folder / host_layout.END_RECORD).write_text(record, encoding="utf-8")

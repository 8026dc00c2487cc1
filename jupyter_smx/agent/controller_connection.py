"""The stream of one controller: its requests, their checks, and the events sent to it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, cast

from jupyter_smx.agent import __version__, wire
from jupyter_smx.agent.contract import scriptmode
from jupyter_smx.agent.host import host as hosts
from jupyter_smx.agent.host.provided_files import ProvisionError
from jupyter_smx.agent.host.spool import SpoolError, check_job
from jupyter_smx.agent.job.controller_clock import ControllerClock
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.forwarding import channel_frames
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, WRITE
from jupyter_smx.agent.system.resources import disk

if TYPE_CHECKING:
    import socket

    from jupyter_smx.agent.frames import (
        DeadlineRequest,
        ForgetRequest,
        HaveRequest,
        HelloRequest,
        PlaceRequest,
        PreloadRequest,
        PutRequest,
        ReadRequest,
        RunRequest,
        StopRequest,
    )
    from jupyter_smx.agent.host.job_entry import JobEntry
    from jupyter_smx.agent.system.processes.event_loop import Timer

_UNREAD_LIMIT = 16 * 1024 * 1024
_RECEIVE_SIZE = 65_536
"""Bytes of one read. For more the C library would map new memory each time, also for a short request."""
_ACCEPT_RETRY_DELAY = 0.5
_PAUSE_AT = 1024 * 1024
_PAUSE_CHANNELS_AT = 256 * 1024
"""Bytes to send beyond which no connection is read: uploads of jobs must not stop the reading of requests."""
_CAN_WAIT = frozenset({"exited", "grew", "sampled"})
"""Events that are sent with a short delay: the end of their job often follows, and each packet wakes a process."""
_BATCH_DELAY = 0.005
_NEEDS_ZYGOTE = ("run", "stop")
"""Operations that wait until jobs can start; both, so that a job is not stopped before it is there."""


class OperationError(Exception):
    """A refusal as an answer: a code for programs and a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _no_such_operation(header: Dict[str, Any]) -> Dict[str, Any]:
    raise OperationError("ValidationException", f"op: {header.get('op')!r} is not an operation of this agent.")


class ControllerEndpoint:
    """Accepts controllers; only the newest one that greeted may send requests."""

    def __init__(self, host: hosts.Host, listener: socket.socket) -> None:
        self.host = host
        self.epoch = -1
        self.streams: List[ControllerSession] = []
        self._listener = listener
        host.on_close = self._close_streams
        listener.setblocking(False)
        self._open()

    def _open(self) -> None:
        self.host.loop.watch(self._listener.fileno(), READ, self._accept)

    def _accept(self) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError as error:
            # Out of descriptors or memory: look again later instead of turning in a circle.
            process.log(f"accept: {error}")
            self.host.loop.unwatch(self._listener.fileno())
            self.host.loop.later(_ACCEPT_RETRY_DELAY, self._open)
            return
        self.streams.append(ControllerSession(self, sock))

    def _close_streams(self) -> None:
        """Close every stream, so that controllers greet again: the answer then reports that the host is closed."""
        for stream in list(self.streams):
            stream.close()

    def accept_controller(self, newcomer: ControllerSession, epoch: int) -> None:
        """Accept a controller and close the streams that were opened before it.

        :raises RefusedError: a newer controller was here.
        """
        if epoch < self.epoch:
            raise OperationError(
                "Fenced", f"epoch: {epoch} is over; a controller with epoch {self.epoch} took this host."
            )
        self.epoch = epoch
        for stream in list(self.streams):
            if stream is not newcomer and stream.epoch is not None:
                stream.close()


class ControllerSession:
    """Reads frames, answers them in their order, and passes events on."""

    def __init__(self, endpoint: ControllerEndpoint, sock: socket.socket) -> None:
        self.endpoint = endpoint
        self.host = endpoint.host
        self.epoch: Optional[int] = None
        self._sock = sock
        self._decoder = wire.Decoder()
        self._out = bytearray()
        self._flush_timer: Optional[Timer] = None
        self._closed = False
        self._operations: Dict[str, Callable[[Any], Dict[str, Any]]] = {
            "run": self._run,
            "stop": self._stop,
            "read": self._read,
            "forget": self._forget,
            "deadline": self._deadline,
            "preload": self._preload,
            "have": self._have,
            "place": self._place,
            "ping": lambda _header: {"now": time.time()},
        }
        sock.setblocking(False)
        self._watch()

    # Bytes

    def _watch(self) -> None:
        self.host.aws_front.ports.pause(self, is_paused=len(self._out) > _PAUSE_CHANNELS_AT)
        events = 0 if len(self._out) > _PAUSE_AT else READ
        self.host.loop.watch(self._sock.fileno(), events | (WRITE if self._out else 0), self._readable, self._flush)

    def close(self) -> None:
        """End the stream; unsent messages are lost, but the spool has their content."""
        if self._closed:
            return
        self._closed = True
        self._out.clear()
        self.host.loop.unwatch(self._sock.fileno())
        self._sock.close()
        self.endpoint.streams.remove(self)
        self.host.aws_front.ports.detach(self)
        if self.send_event in self.host.listeners:
            self.host.listeners.remove(self.send_event)
            if self.host.is_noticed:
                self.host.loop.later(0, self.host.end_without_reader)

    def send(self, header: Dict[str, Any], body: Optional[bytes] = None) -> None:
        """Queue one frame and send what the socket takes."""
        if self._closed:
            return
        self._out += wire.encode(header, body)
        self._flush()

    def send_event(self, event: Dict[str, Any]) -> None:
        """Send an event: now, or with those that follow within a moment."""
        if event["event"] not in _CAN_WAIT:
            self.send(event)
        elif not self._closed:
            self._out += wire.encode(event)
            if self._flush_timer is None:
                self._flush_timer = self.host.loop.later(_BATCH_DELAY, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._closed:
            return
        had = bool(self._out)
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if len(self._out) > _UNREAD_LIMIT:
            process.log("a controller does not read; its stream is closed")
            self.close()
        elif had or self._out:
            self._watch()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_RECEIVE_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        received = time.time()
        try:
            for frame in self._decoder.feed(data):
                if self._closed:
                    break
                if channel_frames.CHANNEL in frame.header:
                    self.host.aws_front.ports.take(self, frame)
                else:
                    self._handle_or_delay(frame, received)
        except wire.WireError as error:
            process.log(f"a stream is closed: {error}")
            self.close()

    # Questions

    def _handle_or_delay(self, frame: wire.Frame, received: float) -> None:
        needs_zygote = self.epoch is not None and frame.header.get("op") in _NEEDS_ZYGOTE
        if needs_zygote and not self.host.is_ready:
            self.host.when_ready(partial(self._handle_delayed, frame, received))
        else:
            self._handle_request(frame, received)

    def _handle_request(self, frame: wire.Frame, received: float) -> None:
        header = frame.header
        number, operation = header.get("id"), header.get("op")
        try:
            if operation == "hello":
                self._hello(cast("HelloRequest", header))
                return
            if operation == "end":
                self._check_epoch()
                self.send({"re": number, "ok": True})
                self.host.shut_down("the controller asked for it")
                return
            self._check_epoch()
            known: Callable[[Any], Dict[str, Any]] = self._operations.get(str(operation), _no_such_operation)
            header["received"] = received
            if operation == "read":
                self._read(cast("ReadRequest", header))
                return
            if operation == "put":
                known = partial(self._put, frame.body)
            self.send(dict(known(header), re=number, ok=True))
        except OperationError as refused:
            self.send({"re": number, "ok": False, "code": refused.code, "message": refused.message})
        except SpoolError as error:
            self.send({"re": number, "ok": False, "code": "ResourceNotFound", "message": str(error)})
        except ProvisionError as error:
            self.send({"re": number, "ok": False, "code": "ServiceUnavailable", "message": str(error)})
        except OSError as error:
            why = disk.format_error(error, [("this host's folder", self.host.folder.root)])
            text = f"{operation}: this host cannot do it now. {why} Try again, or use another host."
            self.send({"re": number, "ok": False, "code": "ServiceUnavailable", "message": text})
        except (ValueError, TypeError, KeyError) as error:
            text = f"{operation}: the fields of this request cannot be used ({type(error).__name__}: {error})."
            self.send({"re": number, "ok": False, "code": "ValidationException", "message": text})

    def _handle_delayed(self, frame: wire.Frame, received: float) -> None:
        """Handle a request that waited, unless its stream was closed meanwhile: the controller repeats it."""
        if not self._closed:
            self._handle_request(frame, received)

    def _check_epoch(self) -> None:
        if self.epoch is None:
            raise OperationError("Refused", "op: the first operation of a stream must be hello.")
        if self.epoch < self.endpoint.epoch:
            raise OperationError("Fenced", f"epoch: {self.epoch} is over; {self.endpoint.epoch} took this host.")

    def _hello(self, header: HelloRequest) -> None:
        if header.get("protocol") != wire.PROTOCOL:
            text = f"protocol: {header.get('protocol')!r}; this agent speaks {wire.PROTOCOL}."
            raise OperationError("Protocol", text)
        epoch = int(header.get("epoch", 0))
        self.endpoint.accept_controller(self, epoch)
        self.epoch = epoch
        if self.send_event not in self.host.listeners:
            self.host.listeners.append(self.send_event)
        if header.get("channels"):
            self.host.aws_front.ports.attach(self, self.send)
        greeting = {"re": header.get("id"), "ok": True, "protocol": wire.PROTOCOL, "version": __version__}
        self.send(dict(hosts.describe(self.host), now=time.time(), channels=True, **greeting))

    def _job(self, header: Mapping[str, Any]) -> JobEntry:
        job = self.host.jobs.get(check_job(header.get("job")))
        if job is None:
            raise OperationError("ResourceNotFound", f"job: {header.get('job')} is not on this host.")
        if "lease" in header and int(header["lease"]) != job.lease:
            text = f"lease: {header['lease']} is not the lease of job {job.id}, which is {job.lease}."
            raise OperationError("Fenced", text)
        return job

    def _run(self, header: RunRequest) -> Dict[str, Any]:
        name, lease, host = check_job(header["job"]), int(header["lease"]), self.host
        if name in host.jobs:
            return {"phase": self._job(header).phase}
        if lease < host.highest_lease:
            raise OperationError("Fenced", f"lease: {lease} is over; this host has seen {host.highest_lease}.")
        if name in host.forgotten_jobs or host.spool.has_job(name):
            return {"phase": "ended"}
        if host.takes_no_jobs():
            raise OperationError("ServiceUnavailable", "host: its time is over; it only keeps results. Take another.")
        if host.current is not None:
            raise OperationError("Busy", f"job: {host.current.id} is {host.current.phase} on this host.")
        if host.is_shutting_down or not host.isolation.is_intact():
            host.shut_down("/etc/hosts of this host was replaced from outside", code=4)
            raise OperationError(
                "ServiceUnavailable", "host: its /etc/hosts was replaced from outside, so it exits. Use another host."
            )
        from jupyter_smx.agent.job.job import Job  # noqa: PLC0415 - loaded already, see `startup.LATER`

        clock = ControllerClock(float(header.get("clock_ahead") or 0.0))
        job = Job(host, name, lease, scriptmode.complete(header["spec"]), header["received"], clock)
        job.spec["environment"] = host.lead_clients(job.spec["environment"], str(header.get("sdk_config") or ""))
        host.add_job(job)
        job.start()
        return {"phase": job.phase}

    def _stop(self, header: StopRequest) -> Dict[str, Any]:
        job = self._job(header)
        job.stop(float(header.get("grace", self.host.config.grace)), str(header.get("cause") or "stopped"))
        return {"phase": job.phase}

    def _read(self, header: ReadRequest) -> Dict[str, Any]:
        limit = int(header.get("limit", wire.MAX_BODY))
        name, offset = header.get("name", host_layout.JOB_LOG), int(header.get("offset", 0))
        data, total = self.host.spool.read(check_job(header.get("job")), name, offset, limit)
        self.send({"re": header.get("id"), "ok": True, "job": header["job"], "offset": offset, "total": total}, data)
        return {}

    def _forget(self, header: ForgetRequest) -> Dict[str, Any]:
        name = check_job(header.get("job"))
        job = self.host.jobs.get(name)
        if job is not None and job.phase != "ended":
            raise OperationError("Busy", f"job: {name} is {job.phase}; stop it first.")
        self.host.forget(name)
        return {}

    def _deadline(self, header: DeadlineRequest) -> Dict[str, Any]:
        if self.host.is_closed:
            return {"deadline": 0.0}  # for results it has a deadline of its own
        seconds = header.get("seconds")
        self.host.deadline.set(None if seconds is None else float(seconds))
        self.host.loop.later(0, self.host.check_deadline)
        return {"deadline": self.host.deadline.remaining()}

    def _preload(self, header: PreloadRequest) -> Dict[str, Any]:
        modules = [str(name) for name in header.get("modules") or []]
        if not self.host.is_closed:
            self.host.fork_server.request(modules)
        return {}

    def _have(self, header: HaveRequest) -> Dict[str, Any]:
        return dict(self.host.provided.have(header["items"], header["files"], only=header["only"]))

    def _put(self, data: bytes, header: PutRequest) -> Dict[str, Any]:
        return {"offset": self.host.provided.put(header["sha256"], header["offset"], header["total"], data)}

    def _place(self, header: PlaceRequest) -> Dict[str, Any]:
        return {"path": self.host.provided.place(header["item"], header["name"], header["entries"])}

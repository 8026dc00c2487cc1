"""One open stream to the agent of one host: requests with their answers, events, and pings."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.system.forwarding.channel_frames import CHANNEL
from jupyter_smx.agent.wire import Decoder, Frame, WireError, encode
from jupyter_smx.controller.agents.channels import Channels
from jupyter_smx.controller.errors import FencedError
from jupyter_smx.model.errors import (
    ErrorBody,
    ResourceInUseError,
    SmxError,
    UnavailableError,
    ValidationError,
    VersionMismatchError,
    from_body,
)
from jupyter_smx.model.text import format_duration
from jupyter_smx.policy.hosts import agent_messages
from jupyter_smx.policy.hosts.host_clock import HostClock, best_host_clock, measure_host_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from jupyter_smx.agent.frames import (
        DeadlineFields,
        ForgetFields,
        HaveFields,
        PlaceFields,
        PreloadFields,
        PutFields,
        ReadFields,
        RunFields,
        StopFields,
    )
    from jupyter_smx.controller.agents.front import FrontFolder

_log = logging.getLogger(__name__)

READ_SIZE = 262_144
_NOTABLE_DIFFERENCE = 2.0
"""Change of the difference of two clocks, in seconds, that is logged."""
_SILENT_PERIODS = 1.5
ANSWER_WITHIN = 30.0
"""Seconds; every operation of an agent is quick, and long work reports by events."""

_REFUSALS: dict[str, type[SmxError]] = {
    "Busy": ResourceInUseError,
    "Fenced": FencedError,
    "Protocol": VersionMismatchError,
}


@dataclass(frozen=True)
class _PendingRequest:
    """A request that waits for its answer."""

    op: str
    fields: Mapping[str, Any]
    answer: asyncio.Future[Frame]
    sent_at: tuple[float, float]
    """When, by the clock of the records and by the one of the event loop."""


class AgentStream:
    """The requests, replies and events between the controller and one agent, concurrent on one stream.

    ``dropped_frames`` counts frames that answer no request, or name a job and lease that were never given to this
    host: a late reply for one job is never taken for that of another.

    ``clock`` returns seconds since the epoch; without it the host's clock is taken as equal. Greetings and pings
    measure the difference of the host's clock. Each run request sends it to the agent, so that all moments that the
    agent writes are of this clock.
    """

    def __init__(
        self,
        host: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        on_event: Callable[[str, Mapping[str, Any]], None],
        on_close: Callable[[str, str], None],
        ping_every: float = 5.0,
        misses: int = 3,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.host = host
        self.dropped_frames = 0
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._on_close = on_close
        self._clock = clock
        self._host_clock: HostClock | None = None
        self._ping_every = ping_every
        self._receive_timeout = ping_every * misses
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._pending_requests: dict[int, _PendingRequest] = {}
        self._leases: dict[str, int] = {}
        self._last_id = 0
        self._reason = ""
        self._front: FrontFolder | None = None
        self.channels: Channels | None = None
        """Connections of the host's jobs; None if they lead nowhere here."""
        self._is_silent = False
        self._last_received_at = self._loop.time()
        self._next_ping_at = self._last_received_at + ping_every
        self._ping_timer = self._loop.call_at(self._next_ping_at, self._on_ping_timer)
        self._read_task = self._loop.create_task(self._read_loop(), name=f"listen {host}")

    def is_open(self) -> bool:
        """Return True if requests can still be sent."""
        return not self._reason

    def stalled_seconds(self) -> float:
        """Return the seconds since the host sent anything; 0.0 below two periods of pings."""
        return self._loop.time() - self._last_received_at if self._is_silent else 0.0

    def clock_ahead(self) -> float:
        """Return the seconds by which the host's clock is ahead; 0.0 if the clocks may be the same."""
        return 0.0 if self._host_clock is None else self._host_clock.seconds()

    def send_now(
        self, op: str, *, timeout: float = ANSWER_WITHIN, body: bytes | None = None, **fields: Any
    ) -> asyncio.Future[Frame]:
        """Write a request to the socket before returning, and return the future answer: header and bytes.

        The future fails with UnavailableError (closed, or no answer in ``timeout`` seconds) or with the agent's error;
        callers may ignore it.
        """
        answer: asyncio.Future[Frame] = self._loop.create_future()
        answer.add_done_callback(_retrieve_exception)
        if self._reason:
            answer.set_exception(self._unavailable(self._reason))
            return answer
        self._last_id = number = self._last_id + 1
        try:
            frame = encode({"id": number, "op": op, **fields}, body)
        except (WireError, TypeError) as error:
            answer.set_exception(ValidationError(f"The request {op} cannot be sent: {error}", field=op))
            return answer
        self._note_lease(op, fields)
        self._pending_requests[number] = _PendingRequest(op, fields, answer, self._times())
        late = self._loop.call_later(timeout, self._on_timeout, number, timeout)
        answer.add_done_callback(lambda _done: self._on_reply(number, late))
        self._writer.write(frame)
        return answer

    async def request(self, op: str, *, timeout: float = ANSWER_WITHIN, **fields: Any) -> Frame:
        """Send a request and wait for its answer: header and bytes.

        :raises UnavailableError: the stream closed, or no answer came in ``timeout`` seconds.
        :raises SmxError: the agent refused; the class shows how.
        """
        return await self.send_now(op, timeout=timeout, **fields)

    def run(self, **fields: Unpack[RunFields]) -> asyncio.Future[Frame]:
        """Send ``run``; see :class:`RunFields`. The methods below send their requests in the same way."""
        ahead = self.clock_ahead()
        if ahead:
            fields["clock_ahead"] = ahead
        if self._front is not None and (text := self._front.read_sdk_config(fields["spec"]["environment"])):
            fields["sdk_config"] = text
        return self.send_now("run", **fields)

    def request_stop(self, **fields: Unpack[StopFields]) -> asyncio.Future[Frame]:
        """Send ``stop``."""
        return self.send_now("stop", **fields)

    def read_file(self, **fields: Unpack[ReadFields]) -> asyncio.Future[Frame]:
        """Send ``read``; the answer has the bytes as its body and ``total``, the size of the file."""
        return self.send_now("read", **fields)

    def forget(self, **fields: Unpack[ForgetFields]) -> asyncio.Future[Frame]:
        """Send ``forget``."""
        return self.send_now("forget", **fields)

    def set_deadline(self, **fields: Unpack[DeadlineFields]) -> asyncio.Future[Frame]:
        """Send ``deadline``."""
        return self.send_now("deadline", **fields)

    def preload(self, **fields: Unpack[PreloadFields]) -> asyncio.Future[Frame]:
        """Send ``preload``."""
        return self.send_now("preload", **fields)

    def have(self, **fields: Unpack[HaveFields]) -> asyncio.Future[Frame]:
        """Send ``have``; see :class:`HaveAnswer`."""
        return self.send_now("have", **fields)

    def put(self, data: bytes, timeout: float, **fields: Unpack[PutFields]) -> asyncio.Future[Frame]:
        """Send ``put`` with these bytes, which may take ``timeout`` seconds."""
        return self.send_now("put", body=data, timeout=timeout, **fields)

    def place(self, timeout: float, **fields: Unpack[PlaceFields]) -> asyncio.Future[Frame]:
        """Send ``place``, which may take ``timeout`` seconds; the answer has the ``path`` on the host."""
        return self.send_now("place", timeout=timeout, **fields)

    def lead_to_front(self, front: FrontFolder) -> None:
        """Let the agent open channels, each of which is a connection to the front for clients of AWS."""
        self._front = front
        self.channels = Channels(front.connect, self._write_open)

    def close(self, reason: str = "The controller closed the stream.") -> None:
        """Close the stream without a call of ``on_close``; requests without an answer fail. Idempotent."""
        if self._reason:
            return
        self._reason = reason
        self._ping_timer.cancel()
        self._read_task.cancel()
        if self.channels is not None:
            self.channels.close()
        for request in list(self._pending_requests.values()):
            if not request.answer.done():
                request.answer.set_exception(self._unavailable(reason))
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed and nothing runs any more."""
        await asyncio.gather(self._read_task, return_exceptions=True)
        if self.channels is not None:
            await self.channels.wait_closed()
        # The other end may have died in the middle of a frame; after the close that is no error.
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    # Inside

    def _write_open(self, data: bytes) -> None:
        if not self._reason:
            self._writer.write(data)

    async def _read_loop(self) -> None:
        reason = "The agent closed the stream."
        try:
            while data := await self._reader.read(READ_SIZE):
                self._last_received_at, self._is_silent = self._loop.time(), False
                for frame in self._decoder.feed(data):
                    self._take(frame)
        except WireError as error:
            reason = f"The agent sent an invalid frame: {error}"
        except OSError as error:
            reason = f"The stream broke: {error.strerror or error}."
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self._reason:
            return
        self.close(reason)
        self._on_close(self.host, reason)

    def _take(self, frame: Frame) -> None:
        header = frame.header
        if "re" in header:
            self._take_answer(frame)
        elif "event" in header:
            self._take_event(header)
        elif CHANNEL in header and self.channels is not None and not self._reason:
            self.channels.take(frame)
        elif header.get("op") == "ping" and not self._reason:
            self._writer.write(encode({"re": header.get("id"), "ok": True}))
        else:
            self._drop(header)

    def _take_answer(self, frame: Frame) -> None:
        header = frame.header
        request = self._pending_requests.get(header["re"]) if isinstance(header["re"], int) else None
        if request is None or not _fits(header, request.fields):
            self._drop(header)
        elif request.answer.done():
            return
        elif header.get("ok") is True:
            if request.op in ("hello", "ping"):
                self._compare_clocks(header.get("now"), request.sent_at)
            if request.op == "hello":
                self._adopt(header.get("jobs"))
            request.answer.set_result(frame)
        else:
            request.answer.set_exception(self._refusal(request.op, header))

    def _times(self) -> tuple[float, float]:
        return 0.0 if self._clock is None else self._clock(), self._loop.time()

    def _compare_clocks(self, said: object, sent_at: tuple[float, float]) -> None:
        remote, before = agent_messages.parse_moment(said), self.clock_ahead()
        if remote is None or self._clock is None:
            return  # an agent of an earlier version does not send it
        now, elapsed = self._clock(), self._loop.time() - sent_at[1]
        measured = measure_host_clock(remote, sent_at[0], now, elapsed)
        self._host_clock = best_host_clock(self._host_clock, measured)
        if abs(self.clock_ahead() - before) > _NOTABLE_DIFFERENCE:
            _log.info("host=%s clock is ahead by %.1f s", self.host, self.clock_ahead())

    def _take_event(self, header: Mapping[str, Any]) -> None:
        job = header.get("job")
        if job is not None and self._leases.get(str(job)) != header.get("lease"):
            self._drop(header)
            return
        try:
            self._on_event(self.host, header)
        except Exception:  # noqa: BLE001
            # The border between an agent's events and the controller: one bad event must not stop the reader.
            _log.exception("event=%s host=%s handling failed", header.get("event"), self.host)

    def _drop(self, header: Mapping[str, Any]) -> None:
        self.dropped_frames += 1
        said = {name: header[name] for name in ("re", "event", "op", "job", "lease") if name in header}
        # Mostly a reply to a request that was given up meanwhile, which is no error.
        _log.debug("host=%s unexpected frame dropped: %s", self.host, said)

    def _adopt(self, jobs: object) -> None:
        for job, facts in (jobs if isinstance(jobs, dict) else {}).items():
            if isinstance(facts, dict):  # the caller that greets checks all else
                self._leases.setdefault(job, agent_messages.parse_count(facts.get("lease")))

    def _note_lease(self, op: str, fields: Mapping[str, Any]) -> None:
        if op == "run":
            self._leases[fields["job"]] = fields["lease"]
        elif op == "forget":
            self._leases.pop(fields["job"], None)

    def _on_reply(self, number: int, late: asyncio.TimerHandle) -> None:
        late.cancel()
        self._pending_requests.pop(number, None)

    def _on_timeout(self, number: int, seconds: float) -> None:
        request = self._pending_requests[number]
        if not request.answer.done():
            request.answer.set_exception(
                self._unavailable(f"The agent did not answer {request.op!r} within {format_duration(seconds)}.")
            )

    def _on_ping_timer(self) -> None:
        now = self._loop.time()
        if now - self._next_ping_at > self._ping_every:
            # It was this process that slept, so what was sent meanwhile is still unread.
            self._last_received_at = now
        if now - self._last_received_at >= self._receive_timeout:
            self._fail(f"The agent sent nothing for {format_duration(now - self._last_received_at)}.")
            return
        # The answer to a ping comes after the ping, so one missed answer takes a little less than two periods.
        self._is_silent = now - self._last_received_at >= _SILENT_PERIODS * self._ping_every
        self.send_now("ping", timeout=2 * self._receive_timeout)
        self._next_ping_at = now + self._ping_every
        self._ping_timer = self._loop.call_at(self._next_ping_at, self._on_ping_timer)

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(f"The agent on {self.host} is unreachable. {reason}", transient=True)

    def _refusal(self, op: str, header: Mapping[str, Any]) -> SmxError:
        code, message = (
            agent_messages.printable_text(header.get("code", "")),
            agent_messages.printable_text(header.get("message", "")),
        )
        text = f"The agent on {self.host} refused {op!r}: {message or code}"
        kind = _REFUSALS.get(code)
        return kind(text) if kind else from_body(ErrorBody(code=code, message=text))


def _fits(header: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    return all(header.get(name, fields.get(name)) == fields.get(name) for name in ("job", "lease"))


def _retrieve_exception(answer: asyncio.Future[Frame]) -> None:
    # Retrieve the exception, so that asyncio does not log "exception was never retrieved".
    if not answer.cancelled():
        answer.exception()

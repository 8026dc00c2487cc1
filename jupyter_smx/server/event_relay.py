"""Follow the controller's changes in one task, and relay each one as a hint on Jupyter's event bus."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx import controller_launch
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.http_routes import controller_path
from jupyter_smx.model.records.event import Changes, PoolSummary
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.server.bus_events import BusEvent, reset_event, to_bus_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from logging import Logger

    from jupyter_smx.server.activity import Activity
    from jupyter_smx.server.connection import ControllerConnection
    from jupyter_smx.server.pending_messages import PendingMessages

LONG_POLL = 25.0
"""Seconds that the controller may hold a request for changes."""

COALESCE = 0.1
"""Seconds between two requests while there is news, so that a storm of changes becomes few events."""

SOCKET_POLL = 0.5
"""Seconds between two looks for a controller's socket while there is none."""

RESTART_PAUSE = 10.0
"""Seconds between two starts of a controller that went away while jobs were in progress."""

PAGE = 1_000
"""Maximum jobs of one answer; there may be ten times as many."""


class Root(msgspec.Struct, frozen=True):
    """The part of ``GET /v1/`` that is needed here."""

    seq: int


class JobsResponse(msgspec.Struct, frozen=True):
    """Answer to ``GET /v1/jobs``."""

    jobs: tuple[JobSummary, ...]


class PoolsResponse(msgspec.Struct, frozen=True):
    """Answer to ``GET /v1/pools``."""

    pools: tuple[PoolSummary, ...]


class EventRelay:
    """Relays events; starts a controller only if one was lost while jobs were in progress."""

    def __init__(
        self,
        connection: ControllerConnection,
        activity: Activity,
        emit: Callable[[BusEvent], None],
        log: Logger,
        outbox: PendingMessages | None = None,
    ) -> None:
        self._pending = outbox
        self._connection = connection
        self._activity = activity
        self._emit = emit
        self._log = log
        self._wake_event = asyncio.Event()
        self._restarted_at = float("-inf")

    def wake(self) -> None:
        """Connect to the controller now: a request has just used it."""
        self._wake_event.set()

    async def run(self) -> None:
        """Follow one controller after the other until cancelled."""
        while True:
            try:
                await self._follow()
            except (UnavailableError, msgspec.MsgspecError) as error:
                # A controller that answers nonsense is as good as none: look again a little later.
                self._log.debug("jupyter_smx: cannot start or reach the controller: %s", error)
            except Exception:  # noqa: BLE001
                # The border of the task: no caller awaits it, so a bug here must not end all events silently.
                self._log.exception("jupyter_smx: event relay failed; restarting it")
            self._connection.reap()
            await self._restart_controller()
            await self._wait_for_socket()

    async def _follow(self) -> None:
        seq = await self._list()
        while True:
            query = {"since": str(seq), "wait": f"{LONG_POLL:.0f}"}
            changes = msgspec.json.decode(
                await self._get(controller_path("list_changes"), query, LONG_POLL), type=Changes
            )
            if changes.reset:
                seq = await self._list()
                continue
            self._activity.apply_changes(changes.events, time.monotonic())
            if self._pending is not None:
                self._pending.apply_changes(changes.events, time.time())
            for notice in to_bus_events(changes.events):
                self._emit(notice)
            # One answer has a part only of very many events; the next part follows the last one of them.
            seq = changes.events[-1].seq if changes.events else changes.seq
            if changes.events:
                await asyncio.sleep(COALESCE)

    async def _list(self) -> int:
        # Read the number first: changes between the requests then come twice, instead of being missed.
        root = msgspec.json.decode(await self._get(controller_path("describe_controller")), type=Root)
        jobs: list[JobSummary] = []
        for status in ("InProgress", "Stopping"):
            jobs += await self._list_status(status)
        self._activity.replace_all(jobs, time.monotonic())
        if self._pending is not None:
            await self._update_pending(self._pending, jobs)
        self._emit(reset_event(root.seq, time.time()))
        return root.seq

    async def _list_status(self, status: str) -> list[JobSummary]:
        found: list[JobSummary] = []
        query = {"status": status, "limit": str(PAGE)}
        while True:
            page = msgspec.json.decode(await self._get(controller_path("list_jobs"), query), type=JobsResponse).jobs
            found += page
            if len(page) < PAGE:
                return found
            # Running jobs are older than waiting ones, so they are on the last page.
            query["before"] = page[-1].id

    async def _update_pending(self, outbox: PendingMessages, jobs: list[JobSummary]) -> None:
        pools = msgspec.json.decode(await self._get(controller_path("list_pools")), type=PoolsResponse).pools
        ended = outbox.replace_all(jobs, pools)
        if not ended:
            return
        newest = await self._get(controller_path("list_jobs"), {"limit": str(PAGE)})
        for job in msgspec.json.decode(newest, type=JobsResponse).jobs:
            if job.id in ended:
                outbox.add_job_end(job, time.time())

    async def _get(self, path: str, query: Mapping[str, str] | None = None, wait: float = 0.0) -> bytes:
        answer = await self._connection.request("GET", path, query=query, wait=wait)
        if answer.code != 200:  # noqa: PLR2004 - HTTP's word for "here it is"
            raise UnavailableError(f"The controller answered {answer.code} to {path}.")
        return answer.body

    async def _restart_controller(self) -> None:
        now = time.monotonic()
        if not self._activity.count_in_progress(now) or now - self._restarted_at < RESTART_PAUSE:
            return
        self._restarted_at = now
        self._log.warning("jupyter_smx: controller exited while jobs were in progress; starting another")
        try:
            await self._connection.ensure()
        except UnavailableError as error:
            self._log.error("jupyter_smx: %s", error)

    async def _wait_for_socket(self) -> None:
        while True:
            self._wake_event.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake_event.wait(), SOCKET_POLL)
            if controller_launch.has_socket() or self._activity.count_in_progress(time.monotonic()):
                return

"""Set up the server extension: routes, event schema, relay, and the report of activity to cullers."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

import msgspec
from jupyter_server.extension.application import ExtensionApp
from tornado.ioloop import PeriodicCallback
from traitlets import List, Unicode

from jupyter_smx import controller_launch
from jupyter_smx.server.activity import Activity
from jupyter_smx.server.aws_front import AWS_PAGE_OPTION, lead_clients_to_front
from jupyter_smx.server.bus_events import SCHEMA_ID, SCHEMA_PATH, BusEvent, reset_event
from jupyter_smx.server.connection import ControllerConnection
from jupyter_smx.server.event_relay import EventRelay
from jupyter_smx.server.handlers.base import VERSION
from jupyter_smx.server.message_sender import MessageSender, read_addresses
from jupyter_smx.server.pending_messages import PendingMessages
from jupyter_smx.server.routes import ROUTES

if TYPE_CHECKING:
    from jupyter_events import EventLogger
    from jupyter_server.serverapp import ServerApp

_REMIND_CULLERS = 30.0
"""Seconds between two notes that jobs are in progress; a hub looks every few minutes."""


class SmxServerExtension(ExtensionApp):
    """Jobs and warm pools for the browser: no state, no decisions, only the connection to the controller."""

    name = "jupyter_smx"
    app_name = "jupyter_smx"
    load_other_extensions = True

    message_urls: List[str] = List(
        Unicode(),
        help="Addresses of apprise for messages about ended jobs that no open page displayed. Addresses are secrets.",
    ).tag(config=True)
    message_urls_file: Unicode[str, str | bytes] = Unicode(
        "",
        help="A file with such addresses, one per line. With --debug Jupyter writes its configuration into its log, "
        "so addresses are safer in a file that only you can read.",
    ).tag(config=True)

    connection: ControllerConnection
    activity: Activity
    relay: EventRelay | None = None
    pending_messages: PendingMessages | None = None
    _relay_task: asyncio.Task[None] | None = None
    _sender_task: asyncio.Task[None] | None = None
    _reminder: PeriodicCallback | None = None

    def initialize_settings(self) -> None:
        """Make what the handlers need and announce the events."""
        self.connection = ControllerConnection()
        self.activity = Activity()
        self._bus().register_event_schema(SCHEMA_PATH)

    def initialize_handlers(self) -> None:
        """Add the routes."""
        self.handlers.extend(ROUTES)

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        # Events may be emitted on the server's loop only, and this is where it runs for the first time.
        # Kernels and terminals that start from now on are led to the front, where that is enabled.
        if url := await lead_clients_to_front(serverapp.config, self.log):
            serverapp.web_app.settings.setdefault("page_config_data", {})[AWS_PAGE_OPTION] = url
        urls = read_addresses(self.message_urls, self.message_urls_file, self.log)
        if urls:
            self.pending_messages = PendingMessages()
            self._sender_task = asyncio.create_task(
                MessageSender(self.pending_messages, urls, self._refresh_pages, self.log).run()
            )
        self.relay = EventRelay(self.connection, self.activity, self._emit, self.log, self.pending_messages)
        self._relay_task = asyncio.create_task(self.relay.run())
        self._reminder = PeriodicCallback(self.remind_cullers, _REMIND_CULLERS * 1000)
        self._reminder.start()

    async def stop_extension(self) -> None:
        """End the relay; the controller and its jobs go on."""
        if self._reminder is not None:
            self._reminder.stop()
        for task in (self._relay_task, self._sender_task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if hasattr(self, "connection"):
            self.connection.close()

    def wake(self) -> None:
        """Record that the controller was just used."""
        if self.relay is not None:
            self.relay.wake()

    def mark_read(self) -> None:
        """Note that a page reads the latest changes, so that no message about them is due."""
        if self.pending_messages is not None:
            self.pending_messages.mark_read()

    def current_activity(self) -> dict[str, int] | None:
        """Return the number of jobs in progress, None for 0; the server does not shut down as inactive meanwhile."""
        jobs = self.activity.count_in_progress(time.monotonic())
        return {"jobs": jobs} if jobs else None

    def remind_cullers(self) -> None:
        """Count a job in progress as activity of now, for programs that cull servers from outside, as JupyterHub's."""
        if self.current_activity():
            self._server().web_app.settings["last_activity_times"][self.name] = datetime.now(timezone.utc)

    def diagnostics(self) -> dict[str, Any]:
        """Return this server's part of the doctor page."""
        return {
            "version": VERSION,
            "data_dir": str(controller_launch.data_dir()),
            "records_note": controller_launch.records_note(),
            "relay": self._relay_task is not None and not self._relay_task.done(),
            "messages": self._sender_task is not None and not self._sender_task.done(),
            "jobs_in_progress": self.activity.count_in_progress(time.monotonic()),
        }

    def _refresh_pages(self) -> None:
        # Each open page lists everything again now.
        self._emit(reset_event(0, time.time()))

    def _emit(self, notice: BusEvent) -> None:
        self.remind_cullers()
        self._bus().emit(schema_id=SCHEMA_ID, data=msgspec.to_builtins(notice))

    def _bus(self) -> EventLogger:
        return cast("EventLogger", self._server().event_logger)

    def _server(self) -> ServerApp:
        # Jupyter links an extension to its server before it initialises anything of it.
        return cast("ServerApp", self.serverapp)

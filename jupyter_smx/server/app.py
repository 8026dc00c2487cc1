"""The wiring of the server extension: routes, the event schema, the relay and the word to cullers."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import msgspec
from jupyter_server._tz import utcnow
from jupyter_server.extension.application import ExtensionApp
from tornado.ioloop import PeriodicCallback

from jupyter_smx import launch
from jupyter_smx.server.activity import Activity
from jupyter_smx.server.connection import ControllerConnection
from jupyter_smx.server.notice import SCHEMA_ID, SCHEMA_PATH, Notice
from jupyter_smx.server.relay import Relay
from jupyter_smx.server.routes import ROUTES

if TYPE_CHECKING:
    from jupyter_events import EventLogger
    from jupyter_server.serverapp import ServerApp

_REMIND_CULLERS = 30.0
"""Seconds between two notes that jobs are in progress; a hub looks every few minutes."""


class SmxServerExtension(ExtensionApp):
    """Jobs and warm pools for the browser: no state, no decision, only the way to the controller."""

    name = "jupyter_smx"
    app_name = "jupyter_smx"
    load_other_extensions = True

    connection: ControllerConnection
    activity: Activity
    relay: Relay | None = None
    _following: asyncio.Task[None] | None = None
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
        del serverapp
        self.relay = Relay(self.connection, self.activity, self._emit, self.log)
        self._following = asyncio.create_task(self.relay.run())
        self._reminder = PeriodicCallback(self.remind_cullers, _REMIND_CULLERS * 1000)
        self._reminder.start()

    async def stop_extension(self) -> None:
        """End the relay; the controller and its jobs go on."""
        if self._reminder is not None:
            self._reminder.stop()
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        if hasattr(self, "connection"):
            self.connection.close()

    def wake(self) -> None:
        """Say that the controller was just used."""
        if self.relay is not None:
            self.relay.wake()

    def current_activity(self) -> dict[str, int] | None:
        """Say whether jobs are in progress: the server does not shut down for want of activity while they are."""
        jobs = self.activity.in_progress(time.monotonic())
        return {"jobs": jobs} if jobs else None

    def remind_cullers(self) -> None:
        """Count a job in progress as activity of now, for those who look at the server from outside, as hubs do."""
        if self.current_activity():
            self._server().web_app.settings["last_activity_times"][self.name] = utcnow()

    def examination(self) -> dict[str, Any]:
        """Give this server's part of the doctor's page."""
        return {
            "version": version("jupyter-smx"),
            "data_dir": str(launch.data_dir()),
            "relay": self._following is not None and not self._following.done(),
            "jobs_in_progress": self.activity.in_progress(time.monotonic()),
        }

    def _emit(self, notice: Notice) -> None:
        self.remind_cullers()
        self._bus().emit(schema_id=SCHEMA_ID, data=msgspec.to_builtins(notice))

    def _bus(self) -> EventLogger:
        return cast("EventLogger", self._server().event_logger)

    def _server(self) -> ServerApp:
        # Jupyter links an extension to its server before it initialises anything of it.
        return cast("ServerApp", self.serverapp)

"""The routes of arrays under ``/jupyter-smx/``, passed on to the controller as those of jobs are."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.server.handlers.base import ControllerHandler, quote_segment


class ArraysHandler(ControllerHandler):
    """All arrays."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """List arrays, newest first."""
        query = self.select_query("limit")
        await self.run_guarded(lambda: self.forward("GET", "/v1/arrays", query=query))


class ArrayHandler(ControllerHandler):
    """One array."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Give an array and its tasks; ``tasks=0`` leaves these out, ``wait`` and ``ended`` hold the answer back."""
        query = self.select_query("wait", "ended", "tasks")
        await self.run_guarded(lambda: self.forward("GET", f"/v1/arrays/{quote_segment(ref)}", query=query))


class StopArrayHandler(ControllerHandler):
    """The wish that all tasks of an array stop."""

    @authenticated
    @authorized
    async def post(self, ref: str) -> None:
        """Ask every task to stop."""
        await self.run_guarded(lambda: self.forward("POST", f"/v1/arrays/{quote_segment(ref)}/stop", body=b"{}"))

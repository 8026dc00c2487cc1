"""The routes of warm pools and of hosts under ``/jupyter-smx/``."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.server.handlers.jobs import ControllerHandler, segment


class PoolsHandler(ControllerHandler):
    """The live pools."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """List the live pools."""
        await self.guarded(lambda: self.pass_on("GET", "/v1/pools"))


class PoolHandler(ControllerHandler):
    """One pool."""

    @authenticated
    @authorized
    async def patch(self, ref: str) -> None:
        """Move the end of a pool: ``{"keep_alive": seconds from now}``."""

        async def move() -> None:
            await self.pass_on("PATCH", f"/v1/pools/{segment(ref)}", body=self.json_body())

        await self.guarded(move)

    @authenticated
    @authorized
    async def delete(self, ref: str) -> None:
        """Release a pool."""
        await self.guarded(lambda: self.pass_on("DELETE", f"/v1/pools/{segment(ref)}"))


class ShellHandler(ControllerHandler):
    """A shell on a host of a job or of a pool, for a terminal of this server."""

    @authenticated
    @authorized
    async def get(self, of: str, ref: str) -> None:
        """Say which command opens one on ``host``; nothing is started."""
        asked = self.asked("host")
        await self.guarded(lambda: self.pass_on("GET", f"/v1/{of}/{segment(ref)}/shell", query=asked))

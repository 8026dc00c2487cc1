"""The routes of warm pools and of hosts under ``/jupyter-smx/``."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.server.handlers.base import ControllerHandler, quote_segment


class PoolsHandler(ControllerHandler):
    """The live pools."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """List the live pools."""
        await self.run_guarded(lambda: self.forward("GET", "/v1/pools"))


class PoolHandler(ControllerHandler):
    """One pool."""

    @authenticated
    @authorized
    async def patch(self, ref: str) -> None:
        """Move the end of a pool: ``{"keep_alive": seconds from now}``."""

        async def move() -> None:
            await self.forward("PATCH", f"/v1/pools/{quote_segment(ref)}", body=self.json_body())

        await self.run_guarded(move)

    @authenticated
    @authorized
    async def delete(self, ref: str) -> None:
        """Release a pool."""
        await self.run_guarded(lambda: self.forward("DELETE", f"/v1/pools/{quote_segment(ref)}"))


class ShellHandler(ControllerHandler):
    """A shell on a host of a job or of a pool, for a terminal of this server."""

    @authenticated
    @authorized
    async def get(self, of: str, ref: str) -> None:
        """Say which command opens one on ``host``; nothing is started."""
        asked = self.select_query("host")
        await self.run_guarded(lambda: self.forward("GET", f"/v1/{of}/{quote_segment(ref)}/shell", query=asked))

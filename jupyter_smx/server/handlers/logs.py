"""The routes of a job's log: bytes by cursor, lines that have some words, the whole as a file."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado.web import authenticated

from jupyter_smx.server.handlers.artifact_stream import file_name
from jupyter_smx.server.handlers.base import ControllerHandler, quote_segment

_TEXT = "text/plain; charset=utf-8"


class LogsHandler(ControllerHandler):
    """A job's log, by byte cursor."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Give bytes of a log from ``offset`` on, or the ``last`` so many.

        The headers ``X-Smx-*`` say where to go on, how long it is and whether it was all.
        """
        self.set_header("X-Content-Type-Options", "nosniff")
        query = self.select_query("host", "attempt", "offset", "last", "limit", "wait")
        await self.run_guarded(
            lambda: self.forward("GET", f"/v1/jobs/{quote_segment(ref)}/logs", query=query, content_type=_TEXT)
        )


class LogSearchHandler(ControllerHandler):
    """Where in a job's log some words are."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Give the bytes at which lines have the words, the last first, and how far was looked."""
        query = self.select_query("host", "attempt", "case", "after", "before")
        # A space at the end is one of the words.
        query["text"] = self.get_query_argument("text", "", strip=False)
        await self.run_guarded(lambda: self.forward("GET", f"/v1/jobs/{quote_segment(ref)}/logs/search", query=query))


class WholeLogHandler(ControllerHandler):
    """A job's log as a file."""

    @authenticated
    @authorized
    async def get(self, ref: str) -> None:
        """Stream the log as an attachment that is called ``name``: what a job wrote is never shown as a page."""

        async def stream() -> None:
            path = f"/v1/jobs/{quote_segment(ref)}/logs/whole"
            name = file_name(self.get_query_argument("name", f"{ref}.log"))
            await self.forward_stream(path, name, query=self.select_query("host", "attempt"))

        await self.run_guarded(stream)

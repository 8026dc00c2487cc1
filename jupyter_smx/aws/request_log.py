"""Log requests without their query, which has the signature of a presigned URL; apart, because S3 and the front do."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from tornado.web import HTTPError, RequestHandler

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger(__name__)


class QueryFreeLog(RequestHandler):
    """A handler whose failures are logged by method, path and place; tornado's own text has the whole URI."""

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log a failure, but not its own text, which may quote what the client sent."""
        request = self.request
        if isinstance(value, HTTPError):
            _log.warning("%d %s %s", value.status_code, request.method, request.path)
            return
        name = "" if typ is None else typ.__name__
        trace = "".join(traceback.format_tb(tb))
        _log.error("%s %s failed by an error of this program: %s\n%s", request.method, request.path, name, trace)


def log_request(handler: RequestHandler) -> None:
    """Log a request that was answered."""
    request = handler.request
    target = request.headers.get("X-Amz-Target", "")
    milliseconds = 1000 * request.request_time()
    _log.debug("%d %s %s %s %.1f ms", handler.get_status(), request.method, request.path, target, milliseconds)

"""The position of some bytes within a log, in a body.

It is a module because ``server.schema`` makes a type for the browser from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class LogResponseCursor(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the ``X-Smx-`` headers of a log, as the first line of a body that has bytes of it."""

    offset: int
    """The byte at which the next request continues."""
    total: int
    final: bool
    """True if the log ends at ``offset`` and does not grow any more."""
    host: str
    hosts: tuple[str, ...]
    attempt: int
    attempts: int


def cursor_line(headers: Mapping[str, str]) -> bytes:
    """Return the cursor of an answer of the controller as one line of JSON."""
    cursor = LogResponseCursor(
        offset=int(headers["X-Smx-Offset"]),
        total=int(headers["X-Smx-Total"]),
        final=headers["X-Smx-Final"] == "1",
        host=headers["X-Smx-Host"],
        hosts=tuple(headers["X-Smx-Hosts"].split(",")),
        attempt=int(headers["X-Smx-Attempt"]),
        attempts=int(headers["X-Smx-Attempts"]),
    )
    return msgspec.json.encode(cursor) + b"\n"

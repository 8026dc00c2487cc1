"""Where the last lines of a log begin, found from its end on, so that a long log costs no more than its end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.client.retry import retry_while_unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.client.client import Client, LogChunk

CHUNK_SIZE = 262_144
"""Bytes that are looked through at once."""


class LogPosition(Struct, frozen=True):
    """A byte of the log of one attempt."""

    attempt: int = 1
    offset: int = 0


def start_of_last_lines(client: Client, job_id: str, host: str, count: int, only: int = 0) -> LogPosition:
    """Find where the last ``count`` lines of a host's log begin, the lines that tell attempts apart included.

    They are those of one attempt where ``only`` names it.
    """
    newest = retry_while_unavailable(partial(client.log, job_id, host, 0, limit=1))
    left = count
    for attempt in [only] if only else range(newest.attempts, 0, -1):
        read = partial(client.log, job_id, host, attempt=attempt)
        offset, found = _search_backwards(read, retry_while_unavailable(partial(read, 0, limit=1)).total, left)
        if found >= left:
            return LogPosition(attempt, offset)
        left -= found + 1  # the line between this attempt and the one before
    return LogPosition(only or 1)


def _search_backwards(read: Callable[..., LogChunk], total: int, count: int) -> tuple[int, int]:
    """Give where the last ``count`` lines of a log of ``total`` bytes begin, and how many of them there are."""
    if not count:
        return total, 0
    found = 0
    end = total - 1  # a newline there ends the last line and begins none
    while end > 0:
        start = max(0, end - CHUNK_SIZE)
        piece = retry_while_unavailable(partial(read, start, limit=end - start)).data
        here = piece.count(b"\n")
        if found + here >= count:
            at = len(piece)
            for _ in range(count - found):
                at = piece.rindex(b"\n", 0, at)
            return start + at + 1, count
        found += here
        end = start
    return 0, found + (total > 0)

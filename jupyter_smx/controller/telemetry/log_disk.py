"""Call the disk that has the copies of logs: directly if it is local, in a thread if it is a network file system.

A network file system may need seconds for an answer, or give none, and the controller's loop must not wait for it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from jupyter_smx.controller.telemetry.log_copy import LogCopy

_T = TypeVar("_T")


class LogDisk:
    """Runs calls in their order; one thread keeps it, also for a call whose caller was cancelled."""

    def __init__(self, *, is_network: bool) -> None:
        self.is_network = is_network
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-disk") if is_network else None

    async def call(self, work: Callable[[], _T]) -> _T:
        """Return what ``work`` returns.

        :raises OSError: as ``work`` does.
        """
        if self._thread is None:
            return work()
        return await asyncio.wrap_future(self._thread.submit(work))

    async def open(self, open_copy: Callable[[], LogCopy]) -> LogCopy:
        """Open a copy; close it again if the caller is cancelled meanwhile.

        :raises OSError: the disk refuses.
        """
        if self._thread is None:
            return open_copy()
        opening = self._thread.submit(open_copy)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    def close(self, copy: LogCopy) -> None:
        """Close a copy after the calls that were made before."""
        if self._thread is None:
            copy.close()
        else:
            self._thread.submit(copy.close)

    def shut_down(self) -> None:
        """Take no more calls; what was called is done, if the disk answers."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def write_piece(copy: LogCopy, piece: bytes, total: int, now: int) -> tuple[int, bool]:
    """Write the next bytes of a log; give the offset behind them, and whether the next ones are left out.

    They arrived ``now``, in milliseconds since the epoch.

    :raises OSError: the disk refuses.
    """
    copy.add_time(now)
    # At its place: a controller that was replaced while it slept writes the same bytes again.
    copy.write(piece, total)
    cursor, is_in_gap = copy.cursor, copy.is_in_gap(total)
    if not is_in_gap:
        copy.limit(total)
    return cursor, is_in_gap


def _close_opened(opening: Future[LogCopy]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()

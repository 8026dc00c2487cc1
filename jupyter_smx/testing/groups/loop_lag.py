"""Measure how long code blocked an event loop, without the time in which the machine was busy."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_BEAT = 0.005


class LoopLag:
    """Measures from ``async with`` on; ``worst`` is the longest time in seconds that the loop was blocked."""

    def __init__(self) -> None:
        self.max_lag = 0.0

    async def __aenter__(self) -> Self:
        """Start to measure."""
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to measure, after one more beat that sees a block which is just over."""
        await asyncio.sleep(_BEAT)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            before, waited = time.monotonic(), _cpu_wait()
            await asyncio.sleep(_BEAT)
            late = time.monotonic() - before - _BEAT
            # Time on the run queue is the machine's fault, and not the fault of what runs in this loop.
            self.max_lag = max(self.max_lag, late - max(0.0, _cpu_wait() - waited))


def _cpu_wait() -> float:
    """Return the seconds that threads of this process have waited for a CPU; 0 if the system does not report them.

    All threads count: one that waits while it holds the interpreter's lock keeps the loop waiting with it.
    """
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(task.read_text().split()[1])
    return total / 1e9

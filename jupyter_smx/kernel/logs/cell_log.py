"""Print a job's log under a cell, within the budget of a cell and the write rate of a kernel."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.kernel.front_end import LOG_LIMIT
from jupyter_smx.kernel.logs.log_budget import LogBudget, format_omission, format_pause
from jupyter_smx.kernel.logs.write_rate import WriteRate, message_size, split_pieces

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self


class CellLogSettings(Struct):
    """Settings for all cells of a kernel: maximum bytes of a log in a cell, 0 for all."""

    limit: int = LOG_LIMIT


SETTINGS = CellLogSettings()
_RATE = WriteRate()


def write(text: str) -> None:
    """Write a piece of log to where the cell's output goes."""
    sys.stdout.write(text)
    sys.stdout.flush()


class CellLog:
    """A context in which a call prints a piece of a log; its end prints the last lines of a long one."""

    def __init__(
        self,
        job: str,
        budget: LogBudget,
        rate: WriteRate,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._job = job
        self._budget = budget
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._has_paused = False
        self._at_line_start = True

    def __call__(self, text: str) -> None:
        """Print a piece of the log, or keep it for the end."""
        self._write(self._budget.take(text))
        if self._budget.is_over and not self._has_paused:
            self._has_paused = True
            self._write(self._on_new_line(format_pause(self._job, self._budget.limit)))

    def __enter__(self) -> Self:
        """Return the printer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Print the last lines, and how many before them are left out."""
        text = self._budget.last_lines()
        omission = format_omission(self._budget.omitted_lines, self._budget.omitted_size)
        self._write((self._on_new_line(omission) if self._budget.is_over else "") + text)

    def _on_new_line(self, sentence: str) -> str:
        return sentence if self._at_line_start else f"\n{sentence}"

    def _write(self, text: str) -> None:
        self._at_line_start = text.endswith("\n") if text else self._at_line_start
        for piece in split_pieces(text):
            wait = self._rate.reserve(message_size(piece), self._clock())
            if wait > 0:
                self._sleep(wait)
            write(piece)


def open_cell_log(job: str) -> CellLog:
    """Return what prints the log of a job: within bounds in a notebook, all of it at once in a terminal."""
    if has_kernel():
        return CellLog(job, LogBudget(SETTINGS.limit), _RATE)
    return CellLog(job, LogBudget(0), WriteRate(), sleep=lambda _seconds: None)


def has_kernel() -> bool:
    """Return True if this process is a kernel, whose output a front end shows."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None

"""Why a job ended on its host, in one word."""

from __future__ import annotations

import os
import signal
from typing import Optional


def cause_of(status: Optional[int], asked: str, *, refused: bool, oom: bool) -> str:
    """Say why a job ended: a wish that was acted on, else what its process did."""
    if asked:
        return asked
    if refused or status is None:
        return "refused"
    if os.WIFSIGNALED(status):
        return "memory" if oom and os.WTERMSIG(status) == signal.SIGKILL else "signal"
    return "exit"

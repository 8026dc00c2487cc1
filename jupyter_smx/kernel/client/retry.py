"""Waiting goes on while a controller is away and a new one starts."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 30.0
"""Seconds without a controller after which waiting gives up."""

_PAUSE = 0.2

_Answer = TypeVar("_Answer")


def retry_while_unavailable(ask: Callable[[], _Answer], limit: float = LIMIT) -> _Answer:
    """Ask until there is an answer; each try may start a controller.

    :raises UnavailableError: none for ``limit`` seconds.
    """
    give_up = time.monotonic() + limit
    while True:
        try:
            return ask()
        except UnavailableError:  # noqa: PERF203 - each turn is a request
            if time.monotonic() >= give_up:
                raise
            threading.Event().wait(_PAUSE)

"""Start the controller on demand: find its socket, start it if nothing listens, retry while it is away."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from jupyter_smx import controller_launch, controller_start
from jupyter_smx.controller_start import ControllerStarter
from jupyter_smx.kernel.client.answer_wait import RepeatPolicy
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.model.errors import UnavailableError

Report = Callable[[str], None]

_starter = ControllerStarter()

RETRY_LIMIT = 30.0
"""Seconds without a controller after which waiting gives up."""

_RETRY_PAUSE = 0.2
_Answer = TypeVar("_Answer")


def start(report: Report) -> None:
    """Start a controller and wait until it listens; ``report`` gets a sentence now and then if that takes long.

    :raises UnavailableError: it does not listen; the text has the last line of its log, or that it is slow.
    """
    since, noted_at = _starter.begin(), 0.0
    while not _starter.is_ready(since):
        elapsed = _starter.elapsed()
        note = controller_start.due_note(elapsed, noted_at)
        if note and threading.current_thread() is threading.main_thread():
            # Written to the output of a cell or a terminal; output of background threads belongs to no cell.
            report(note)
        noted_at = elapsed


def _print_note(sentence: str) -> None:
    print(sentence, file=sys.stderr)  # noqa: T201 - what the user reads


def client_without_autostart(patience: float) -> Client:
    """Create a client that starts no controller and waits at most ``patience`` seconds for an answer.

    It repeats a request whose connection was lost for as long.
    """
    return Client(controller_launch.socket_path(), _refuse_start, patience, RepeatPolicy(patience))


def _refuse_start() -> None:
    raise UnavailableError("No controller is running.")


def client(report: Report = _print_note) -> Client:
    """Make a client of this user's controller; nothing is opened or started before the first request."""
    return Client(controller_launch.socket_path(), partial(start, report))


def retry_while_unavailable(ask: Callable[[], _Answer], limit: float = RETRY_LIMIT) -> _Answer:
    """Repeat a request until there is an answer; each try may start a controller.

    :raises UnavailableError: none for ``limit`` seconds.
    """
    give_up = time.monotonic() + limit
    while True:
        try:
            return ask()
        except UnavailableError:  # noqa: PERF203 - each turn is a request
            if time.monotonic() >= give_up:
                raise
            threading.Event().wait(_RETRY_PAUSE)

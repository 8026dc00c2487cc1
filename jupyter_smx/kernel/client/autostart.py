"""Start the controller on demand: find its socket, start it if nothing listens, retry while it is away."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

_children: list[subprocess.Popen[bytes]] = []
"""Kept so that their exit is collected; a controller outlives us."""

RETRY_LIMIT = 30.0
"""Seconds without a controller after which waiting gives up."""

_RETRY_PAUSE = 0.2
_Answer = TypeVar("_Answer")


def start() -> None:
    """Start a controller and wait until it listens.

    :raises UnavailableError: it does not; says the last line of its log.
    """
    try:
        process = controller_launch.start_controller()
    except OSError as error:
        raise controller_launch_errors.start_error(error) from error
    _children[:] = [child for child in _children if child.poll() is None] + [process]
    if not controller_launch.wait_ready(controller_launch_errors.START_LIMIT, process):
        raise controller_launch_errors.no_answer_error()


def client_without_autostart(patience: float) -> Client:
    """Create a client that starts no controller and waits at most ``patience`` seconds for an answer."""
    return Client(controller_launch.socket_path(), _refuse_start, patience)


def _refuse_start() -> None:
    raise UnavailableError("No controller is running.")


def client() -> Client:
    """Make a client of this user's controller; nothing is opened or started before the first request."""
    return Client(controller_launch.socket_path(), start)


def retry_while_unavailable(ask: Callable[[], _Answer], limit: float = RETRY_LIMIT) -> _Answer:
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
            threading.Event().wait(_RETRY_PAUSE)

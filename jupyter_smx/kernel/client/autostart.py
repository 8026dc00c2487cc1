"""The controller on demand: found by its socket, started when nobody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    import subprocess

START_LIMIT = 20.0
"""Seconds until a controller that was just started must listen."""

_children: list[subprocess.Popen[bytes]] = []
"""Kept so that their exit is collected; a controller outlives us."""


def start() -> None:
    """Start a controller and wait until it listens.

    :raises UnavailableError: it does not; says the last line of its log.
    """
    try:
        process = controller_launch.start_controller()
    except OSError as error:
        raise controller_launch_errors.start_error(error) from error
    _children[:] = [child for child in _children if child.poll() is None] + [process]
    if not controller_launch.wait_ready(START_LIMIT, process):
        raise controller_launch_errors.no_answer_error()


def client_without_autostart(patience: float) -> Client:
    """Make a client that starts nobody and waits ``patience`` seconds at most for an answer."""
    return Client(controller_launch.socket_path(), _refuse_start, patience)


def _refuse_start() -> None:
    raise UnavailableError("No controller is running.")


def client() -> Client:
    """Make a client of this user's controller; nothing is opened or started before the first request."""
    return Client(controller_launch.socket_path(), start)

"""Let jobs of a container reach the front for clients of AWS at the port that their variables name.

The front listens at loopback of the machine, which a container does not reach, and at a unix socket in a folder that
the engine mounts. The same port at the container's own loopback leads there, so that the address in the variables and
the header ``Host`` of requests are those of the machine.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from typing import TYPE_CHECKING, Dict, Mapping

from jupyter_smx.agent.paths import AWS_SOCKET
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop

_VARIABLES = "JUPYTER_SMX_AWS"
"""``controller_launch.AWS_VARIABLES``: names the variables that lead clients to the front, separated by commas."""
_URL_VARIABLES = "AWS_ENDPOINT_URL_"
_HOST = "127.0.0.1"
_URL = f"http://{_HOST}:"
_PORT = re.compile("[0-9]{1,5}")
_LAST_PORT = 65_535
"""A job may name a larger number itself, for which ``bind`` raises ``OverflowError``."""
_BACKLOG = 128


def port_of(environment: Mapping[str, str]) -> int:
    """Return the port by which the variables of a job lead clients to the front; 0 if they do not."""
    for name in environment.get(_VARIABLES, "").split(","):
        url = environment.get(name, "")
        if not name.startswith(_URL_VARIABLES) or not url.startswith(_URL):
            continue
        number = url[len(_URL) :]
        if _PORT.fullmatch(number) and 0 < int(number) <= _LAST_PORT:
            return int(number)
    return 0


class AwsFront:
    """The relay of a host; ``folder`` has the front's socket, "" if jobs reach the front without a relay or never."""

    def __init__(self, loop: Loop, folder: str, entry: str) -> None:
        self._loop = loop
        self._folder = folder
        self._entry = entry
        self._relays: Dict[int, int] = {}
        """Process of a relay by its port."""

    def open(self, environment: Mapping[str, str]) -> None:
        """Listen at the port that a job's variables name, unless a relay does; it stays for later jobs of the host."""
        port = port_of(environment)
        if not self._folder or not port or port in self._relays:
            return
        try:
            pid = self._start(port)
        except OSError as error:
            process.log(f"port {port} does not lead to the front for clients of AWS: {error}")
            return
        self._relays[port] = pid
        self._loop.on_exit(pid, lambda _status: self._forget(port))

    def _forget(self, port: int) -> None:
        process.log(f"the relay of port {port} ended")
        self._relays.pop(port, None)

    def _start(self, port: int) -> int:
        """Start the relay with a listener that takes connections at once; return its process.

        :raises OSError: a program of the host has the port, or no process can be started.
        """
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((_HOST, port))
            listener.listen(_BACKLOG)
            listener.set_inheritable(True)
            path = os.path.join(self._folder, AWS_SOCKET)
            words = [sys.executable, "-I", self._entry, "relay", str(listener.fileno()), path]
            return os.posix_spawn(sys.executable, words, dict(os.environ))

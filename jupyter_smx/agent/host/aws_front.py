"""Let jobs reach the front for clients of AWS at the port that their variables name, where it is not on their loopback.

The front listens at loopback of the user's machine, and at a unix socket. In a container, the engine mounts the folder
of the socket, and a relay leads there. On another machine, the stream of the controller leads there. The same port
at the host's own loopback is the beginning of both. On a machine that hosts share with other programs, the port may be
taken: the variables of the job then get another one.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Dict, Mapping

from jupyter_smx.agent.paths import AWS_FRONT, AWS_SOCKET, AWS_URL_PREFIX, AWS_VARIABLES, SDK_CONFIG
from jupyter_smx.agent.system.forwarding.forwarded_port import HOST, ForwardedPorts, listen_at
from jupyter_smx.agent.system.processes import process

if TYPE_CHECKING:
    import socket

    from jupyter_smx.agent.system.processes.event_loop import Loop

_URL = f"http://{HOST}:"
_PORT = re.compile("[0-9]{1,5}")
_LAST_PORT = 65_535
"""A job may name a larger number itself, for which ``bind`` raises ``OverflowError``."""
_REFUSED_PORT = 1
"""Only the administrator of a machine can listen there. Other users may own the port that the variables name."""
_RESTART_DELAY = 0.5
"""Seconds until a relay that ended starts again; connections wait meanwhile."""


def port_of(environment: Mapping[str, str]) -> int:
    """Return the port by which the variables of a job lead clients to the front; 0 if they do not."""
    for name in environment.get(AWS_VARIABLES, "").split(","):
        url = environment.get(name, "")
        if not name.startswith(AWS_URL_PREFIX) or not url.startswith(_URL):
            continue
        number = url[len(_URL) :]
        if _PORT.fullmatch(number) and 0 < int(number) <= _LAST_PORT:
            return int(number)
    return 0


def name_port(environment: Mapping[str, str], port: int) -> Dict[str, str]:
    """Return the variables of a job with another port of the front, in those that lead clients there."""
    before = _URL + str(port_of(environment))
    names = environment.get(AWS_VARIABLES, "").split(",")
    return {
        name: f"{_URL}{port}" if name in names and value == before else value for name, value in environment.items()
    }


def is_sdk_config_of_front(environment: Mapping[str, str]) -> bool:
    """Return True if the variables name a configuration in the folder that containers mount."""
    return os.path.dirname(environment.get(SDK_CONFIG, "")) == AWS_FRONT


def place_sdk_config(environment: Dict[str, str], text: str, folder: str, shown: str) -> Dict[str, str]:
    """Write the configuration of SageMaker's SDK into a folder that jobs see as ``shown``; return the variables for it.

    :raises OSError: it cannot be written.
    """
    name = sdk_config_name(environment)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    return {**environment, SDK_CONFIG: os.path.join(shown, name)}


def sdk_config_name(environment: Mapping[str, str]) -> str:
    """Return the name of the file with the configuration; "" if the variables name none."""
    return os.path.basename(environment.get(SDK_CONFIG, ""))


def drop_missing_sdk_config(environment: Dict[str, str]) -> Dict[str, str]:
    """Return the variables without a configuration of the front that does not exist: sessions of the SDK would fail."""
    if not is_sdk_config_of_front(environment) or os.path.exists(environment[SDK_CONFIG]):
        return environment
    return {name: value for name, value in environment.items() if name != SDK_CONFIG}


class AwsFront:
    """The way of a host's jobs to the front: ``folder`` has its socket for a relay, "" if the stream leads there."""

    def __init__(self, loop: Loop, folder: str, entry: str) -> None:
        self.ports = ForwardedPorts(loop)
        self._loop = loop
        self._folder = folder
        self._entry = entry
        self._listeners: Dict[int, socket.socket] = {}
        """Listener of a relay by its port; it stays open, so that connections wait while a relay starts again."""

    def open(self, environment: Dict[str, str]) -> Dict[str, str]:
        """Listen at the port that a job's variables name, unless that is done; it stays for later jobs of the host.

        Return the variables, with the port that leads to the front, or one that refuses connections if none can.
        """
        port = port_of(environment)
        try:
            if port and self._folder:
                self._relay(port)
            elif port and self.ports.has_stream():
                return name_port(environment, self.ports.listen(port))
        except OSError as error:
            process.log(f"port {port} does not lead to the front for clients of AWS: {error}")
            return environment if self._folder else name_port(environment, _REFUSED_PORT)
        if port and not self._folder and is_sdk_config_of_front(environment):
            process.log(f"port {port} does not lead to the front: this controller takes no connections")
            return name_port(environment, _REFUSED_PORT)
        return environment

    def close(self) -> None:
        """Let no port lead to the front any more; the processes of relays are ended with those of the host."""
        self.ports.close()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    def _relay(self, port: int) -> None:
        """Start the relay of a port with a listener that takes connections at once.

        :raises OSError: a program of the host has the port, or no process can be started.
        """
        if port in self._listeners:
            return
        listener = listen_at(port)
        try:
            listener.set_inheritable(True)
            self._start(port, listener)
        except OSError:
            listener.close()
            raise
        self._listeners[port] = listener

    def _start(self, port: int, listener: socket.socket) -> None:
        path = os.path.join(self._folder, AWS_SOCKET)
        words = [sys.executable, "-I", self._entry, "relay", str(listener.fileno()), path]
        pid = os.posix_spawn(sys.executable, words, dict(os.environ))
        self._loop.on_exit(pid, lambda _status: self._on_exit(port))

    def _on_exit(self, port: int) -> None:
        if port in self._listeners:
            process.log(f"the relay of port {port} ended; it starts again")
            self._loop.later(_RESTART_DELAY, lambda: self._restart(port))

    def _restart(self, port: int) -> None:
        if port not in self._listeners:
            return
        try:
            self._start(port, self._listeners[port])
        except OSError as error:  # the next job tries again
            process.log(f"the relay of port {port} does not start: {error}")
            self._listeners.pop(port).close()

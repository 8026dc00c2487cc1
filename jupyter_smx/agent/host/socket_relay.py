"""Relay connections to a port of a host's loopback to a unix socket; a program beside the agent.

It is a process of its own, so that the agent's loop never waits for the bytes of jobs. Its listener comes from the
agent: connections wait there while this interpreter starts.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import List

from jupyter_smx.agent.system.processes import process

_CHUNK = 256 * 1024
_RETRY_DELAY = 0.5
"""Seconds until the next connection is accepted after the system refused one for lack of descriptors or memory.

Also after it refused a thread, as at the limit of processes of a container.
"""


def main(words: List[str]) -> int:
    """Relay until the agent ends: ``FD PATH``, the descriptor of the listener and the path of the unix socket."""
    process.die_with_parent()
    serve(socket.socket(fileno=int(words[0])), words[1])
    return 0


def serve(listener: socket.socket, path: str) -> None:
    """Relay each connection of a listener to the socket at ``path`` until the listener is shut down."""
    while True:
        try:
            client = listener.accept()[0]
        except OSError:
            if not _is_listening(listener):
                return
            time.sleep(_RETRY_DELAY)
            continue
        try:
            threading.Thread(target=_relay, args=(client, path), daemon=True).start()
        except RuntimeError:  # clients of AWS repeat a request whose connection is closed
            client.close()
            time.sleep(_RETRY_DELAY)


def _is_listening(listener: socket.socket) -> bool:
    try:
        return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False


def _relay(client: socket.socket, path: str) -> None:
    """Relay one connection in both directions; close it at once if it cannot be relayed."""
    with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connect(path)
        except OSError:
            return
        answers = threading.Thread(target=_copy, args=(server, client, socket.SHUT_RDWR), daemon=True)
        try:
            answers.start()
        except RuntimeError:
            return
        _copy(client, server, socket.SHUT_WR)
        answers.join()


def _copy(source: socket.socket, target: socket.socket, at_end: int) -> None:
    """Copy bytes until one side closes, then shut ``target`` down: the other direction may still have an answer."""
    with contextlib.suppress(OSError):
        data = source.recv(_CHUNK)
        while data:
            target.sendall(data)
            data = source.recv(_CHUNK)
    with contextlib.suppress(OSError):
        target.shutdown(at_end)

"""Let one connection to a unix socket of this machine become the input and output of a command, without a session.

A login machine allows few sessions of ssh at once, and forwards any number of sockets. The process that waits for the
connection becomes the command, so nothing else stays.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from jupyter_smx.agent.remote.cluster_store import ClusterStore

_WAIT = 30.0
"""Seconds for the connection."""


def bridge(store: ClusterStore, request: Dict[str, Any]) -> Dict[str, Any]:
    """Listen for one connection to the command ``words``; return the path of the ``socket``.

    :raises OSError: no socket can be made here.
    """
    del store  # a home on a network disk may allow no sockets
    folder = tempfile.mkdtemp(prefix="jupyter_smx-")
    path = os.path.join(folder, secrets.token_hex(4))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    if os.fork() == 0:
        _serve(listener, path, [str(word) for word in request["words"]])
    listener.close()
    return {"socket": path}


def _serve(listener: socket.socket, path: str, words: List[str]) -> None:
    """Wait for the connection in a session of its own, and become the command."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        listener.settimeout(_WAIT)
        try:
            connection = listener.accept()[0]
        finally:
            os.unlink(path)
            os.rmdir(os.path.dirname(path))
        connection.setblocking(True)
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvp(words[0], words)  # noqa: S606 - it becomes that program
    finally:
        os._exit(1)

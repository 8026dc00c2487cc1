"""Sockets in job folders, through which the hosts of a job on one machine connect to each other."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import Iterator, Optional

from jupyter_smx.agent.launchers.host_connection import HostConnection

PATIENCE = 3600.0
"""Seconds for which sagemaker-training waits for the other hosts."""
RETRY_DELAY = 0.02
"""Seconds between two tries to connect."""


@contextmanager
def socket_path(folder: str, name: str) -> Iterator[str]:
    """Name the door in a folder; the name of a socket is short, that of a folder need not be."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


@contextmanager
def listen(folder: str, name: str, most: int = 1) -> Iterator[socket.socket]:
    """Listen on a socket for up to ``most`` waiting connections; it is removed at the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with socket_path(folder, name) as door:
            listener.bind(door)
        try:
            listener.listen(most)
            yield listener
        finally:
            os.unlink(os.path.join(folder, name))


def peer_folder(job: str, host: str) -> str:
    """Return the folder with the socket of the job on another host of this machine; ``job`` is its folder here."""
    spool, name = os.path.split(job)
    hosts = os.path.dirname(os.path.dirname(spool))
    return os.path.join(hosts, host, os.path.basename(spool), name)


def can_connect(connection: socket.socket, folder: str, name: str) -> bool:
    """Connect to the socket in a folder; return False if nothing listens there yet."""
    try:
        with socket_path(folder, name) as door:
            connection.connect(door)
    except OSError:
        return False
    return True


class FolderRendezvous:
    """Sockets with a ``name`` in the folders of a job, whose hosts share a machine; ``job`` is its folder here."""

    def __init__(self, job: str, name: str) -> None:
        self._job = job
        self._name = name

    @contextmanager
    def listen(self, most: int = 1) -> Iterator[socket.socket]:
        """Listen for up to ``most`` waiting connections until the end of the ``with``."""
        with listen(self._job, self._name, most) as listener:
            yield listener

    def accept(self, listener: socket.socket) -> Optional[HostConnection]:
        """Accept the connection of another host."""
        return HostConnection(listener.accept()[0])

    def connect(self, host: str) -> Optional[HostConnection]:
        """Connect to a host; None if it does not listen yet."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if can_connect(connection, peer_folder(self._job, host), self._name):
            return HostConnection(connection)
        connection.close()
        return None

    def shared_secret(self, _purpose: str) -> str:
        """Return a secret that each host can compute: "" here, where hosts have none but can send one."""
        return ""

"""Doors: sockets in the folders of a job, at which its hosts reach each other where they share a machine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    import socket

PATIENCE = 3600.0
"""Seconds for which sagemaker-training waits for the other hosts."""


@contextmanager
def called(folder: str, name: str) -> Iterator[str]:
    """Name the door in a folder; the name of a socket is short, that of a folder need not be."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def folder_of(job: str, host: str) -> str:
    """Give the folder in which the job on another host of this machine has its door; ``job`` is its folder here."""
    spool, name = os.path.split(job)
    hosts = os.path.dirname(os.path.dirname(spool))
    return os.path.join(hosts, host, os.path.basename(spool), name)


def enters(connection: socket.socket, folder: str, name: str) -> bool:
    """Go in at the door of a folder; False while nobody has opened it."""
    try:
        with called(folder, name) as door:
            connection.connect(door)
    except OSError:
        return False
    return True

"""The process of a zygote before it is one: it starts up and waits to be told what it is for."""

from __future__ import annotations

import os
import socket
import sys
from typing import Dict, NamedTuple


class Forerunner(NamedTuple):
    """Its number, and the socket at which it waits; when that closes it leaves."""

    pid: int
    control: socket.socket


def spawn(entry: str, environment: Dict[str, str]) -> Forerunner:
    """Start one: this program, which ``entry`` is, in an interpreter of its own.

    :raises OSError: no process can be started now.
    """
    ours, theirs = socket.socketpair()
    try:
        theirs.set_inheritable(True)
        words = [sys.executable, entry, "zygote", str(theirs.fileno())]
        return Forerunner(os.posix_spawn(sys.executable, words, environment), ours)
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()

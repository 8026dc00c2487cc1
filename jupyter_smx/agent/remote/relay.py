"""Relay bytes between the agent's socket and this process's input and output, where sshd or Slurm offers no sockets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import threading
import time

PLAIN = "plain"
_PIECE = 256 * 1024
_BULK = 64 * 1024
"""Bytes without a pause of ``_PAUSE`` seconds from which on they are bulk: more than a request for a job."""
_PAUSE = 0.01
_COLLECT_TIME = 0.0005
"""Seconds to let bulk collect: Slurm writes pieces of a kilobyte, and a read of each costs two process switches."""
_LARGE_READ = 32 * 1024
"""Bytes of one read from which on there is no need to wait for more."""
_SLURM_PIECE = 1024
_REST_WITHIN = 1
"""Milliseconds after a whole piece until its connection seems to hold back the rest."""
_SET_PIPE_SIZE = 1031
"""``F_SETPIPE_SZ`` of Linux, which :mod:`fcntl` names from Python 3.10 on."""


def relay(socket_path: str, form: str = "") -> int:
    """Carry bytes between a unix socket and this process's input and output until one of them ends.

    For machines on which sshd forwards no sockets. The first byte of the output reports that the socket is connected,
    unless ``form`` is ``plain``.
    """
    # A scheduler that ends a job sends SIGTERM to all its processes. The agent then reports over this stream how its
    # job ended, and closes it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        agent.connect(socket_path)
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return 1
    if form != PLAIN:
        os.write(1, b"+")
    # Two threads: one loop would block when both sides are full.
    out = threading.Thread(target=_copy_out, args=(agent,), daemon=True)
    out.start()
    _copy_in(agent)
    return 0


def _copy_out(agent: socket.socket) -> None:
    buffer = memoryview(bytearray(_PIECE))  # a new one for each read would cost the kernel more than the bytes
    try:
        while True:
            size = agent.recv_into(buffer)
            if not size:
                break
            view = buffer[:size]
            while view:
                view = view[os.write(1, view) :]
    finally:
        os._exit(0)  # its other half would wait for input that means nothing any more


def _copy_in(agent: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be no pipe, or this user's pipes may have too many bytes
        fcntl.fcntl(0, _SET_PIPE_SIZE, _PIECE)
    srun = SrunInput() if is_srun_input() else None
    buffer = memoryview(bytearray(_PIECE))
    reads, size = RecentReads(), 0
    while True:
        began = time.monotonic()
        if srun is not None:
            srun.wait(size)
        size = os.readv(0, [buffer])
        if not size:
            return
        agent.sendall(buffer[:size])
        reads.add(size, time.monotonic() - began)
        if reads.are_bulk_in_pieces():
            time.sleep(_COLLECT_TIME)


class RecentReads:
    """The reads of an input since its last pause."""

    def __init__(self) -> None:
        self._total = 0
        self._last = 0

    def add(self, size: int, seconds: float) -> None:
        """Add a read that took so many seconds."""
        self._total = size + (self._total if seconds < _PAUSE else 0)
        self._last = size

    def are_bulk_in_pieces(self) -> bool:
        """Return True if they are more than a request for a job, and the last one was small."""
        return self._total > _BULK and self._last < _LARGE_READ


def is_srun_input() -> bool:
    """Return True in a step of Slurm whose error output is separate: ``srun`` sets its id, a batch script has none."""
    try:
        return "SLURM_STEP_ID" in os.environ and not os.path.sameopenfile(1, 2)
    except OSError:  # there is no error output
        return False


class SrunInput:
    """The input that ``srun`` sends to a step: a kilobyte at a time, with the short rest of a request held back.

    TCP sends the rest only after the other side has acknowledged the piece before it. That takes 40 ms, or no time if
    the other side sends something. It sends the error output.
    """

    def __init__(self) -> None:
        os.set_blocking(2, False)  # a full error output must not stop the input
        self._poller = select.poll()
        self._poller.register(0, select.POLLIN)

    def wait(self, size: int) -> None:
        """Wait until there is more to read, or a rest may be held back after a read of ``size`` bytes; free it then."""
        if size and size % _SLURM_PIECE == 0 and not self._poller.poll(_REST_WITHIN):
            with contextlib.suppress(OSError):
                os.write(2, b"\n")

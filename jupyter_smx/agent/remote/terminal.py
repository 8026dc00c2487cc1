"""Programs for the other end of a session: a shell where the jobs of a host run, and a way to the agent's socket."""

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
from typing import List, Optional

from jupyter_smx.agent.remote.cluster_store import ClusterStore, HostName

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
_NAMESPACES = ("user", "mnt")


def shell(store: ClusterStore, words: List[str]) -> int:
    """Become a shell in the namespaces of a host: ``CLUSTER HOST``; return an exit code only on failure."""
    name = HostName(words[0], words[1])
    agent = store.agent(name)
    if agent is None or not agent.is_alive():
        sys.stderr.write(f"Host {name.host} of cluster {name.cluster} does not run.\n")
        return 1
    command = shell_command(agent.pid, store.folder(name).ml)
    if command is None:
        sys.stderr.write(f"The namespaces of host {name.host} cannot be entered by this user.\n")
        return 1
    os.execvp(command[0], command)  # noqa: S606 - it becomes that program
    return 1


def shell_command(pid: int, ml: str) -> Optional[List[str]]:
    """Build the command that opens a shell where the jobs of agent ``pid`` run; ``ml`` is its ``/opt/ml`` outside."""
    try:
        own = [
            name
            for name in _NAMESPACES
            if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
        ]
    except OSError:
        return None
    if not own:
        return _shell_in(ml)
    enter = ["nsenter", f"--target={pid}", "--mount"]
    enter += ["--user", "--preserve-credentials"] if "user" in own else []
    return [*enter, *_shell_in("/opt/ml")]


def _shell_in(folder: str) -> List[str]:
    return ["sh", "-c", 'cd "$1" && exec "${SHELL:-sh}"', "sh", folder]


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
    can_release = _can_release_rest()
    if can_release:
        os.set_blocking(2, False)  # a full error output must not stop the input
    poller = select.poll()
    poller.register(0, select.POLLIN)
    buffer = memoryview(bytearray(_PIECE))
    reads, size = RecentReads(), 0
    while True:
        began = time.monotonic()
        if can_release and size and size % _SLURM_PIECE == 0 and not poller.poll(_REST_WITHIN):
            _release_rest()
        size = os.readv(0, [buffer])
        if not size:
            return
        agent.sendall(buffer[:size])
        if reads.add_and_decide_pause(size, time.monotonic() - began):
            time.sleep(_COLLECT_TIME)


def _can_release_rest() -> bool:
    """Return True in a step of Slurm whose error output is separate: ``srun`` sets its id, a batch script has none."""
    try:
        return "SLURM_STEP_ID" in os.environ and not os.path.sameopenfile(1, 2)
    except OSError:  # there is no error output
        return False


def _release_rest() -> None:
    """Let the connection below this input send on.

    ``srun`` writes a piece of a kilobyte and then the short rest of a request. TCP holds that back until the other side
    has acknowledged the piece, which takes 40 ms, or no time if it sends something. It sends the error output.
    """
    with contextlib.suppress(OSError):
        os.write(2, b"\n")


class RecentReads:
    """The reads of an input since its last pause."""

    def __init__(self) -> None:
        self._total = 0

    def add_and_decide_pause(self, size: int, seconds: float) -> bool:
        """Add a read that took so many seconds; return True to pause before the next one."""
        self._total = size + (self._total if seconds < _PAUSE else 0)
        return self._total > _BULK and size < _LARGE_READ

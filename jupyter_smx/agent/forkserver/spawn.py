"""Start the process of a zygote; separate, because in a container it runs before most imports of the agent.

The process waits for a message with its modules. This module and its imports load nothing that the start does not
need: `socket` and `typing` alone take as long as an interpreter without them needs to start.
"""

from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, NoReturn


class SpawnedZygote:
    """Its number, and the descriptor of the socket at which it waits; when that closes it leaves."""

    def __init__(self, pid: int, control: int) -> None:
        self.pid = pid
        self.control = control


def spawn(entry: str, environment: Dict[str, str]) -> SpawnedZygote:
    """Start a zygote process: this program, whose path is ``entry``, in a new interpreter.

    :raises OSError: no process can be started now.
    """
    ours, theirs = _socket.socketpair()
    try:
        os.set_inheritable(theirs.fileno(), True)
        words = [sys.executable, entry, "zygote", str(theirs.fileno())]
        return SpawnedZygote(os.posix_spawn(sys.executable, words, environment), ours.detach())
    finally:
        ours.close()
        theirs.close()


def fork(environment: Dict[str, str]) -> SpawnedZygote:
    """Fork a zygote process from this one, whose interpreter was started as that of a zygote has to be.

    The caller has loaded nothing that a job should not find loaded.

    :raises OSError: no process can be started now.
    """
    ours, theirs = _socket.socketpair()
    try:
        pid = os.fork()
        if pid == 0:
            ours.close()
            _become_zygote(theirs.detach(), environment)
        return SpawnedZygote(pid, ours.detach())
    finally:
        ours.close()
        theirs.close()


def _become_zygote(control: int, environment: Dict[str, str]) -> NoReturn:
    """Run a zygote in this process, which was forked for that, until it exits."""
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = ["zygote", str(control)]
    code = 1
    try:
        from jupyter_smx.agent.forkserver import zygote  # noqa: PLC0415 - the agent does not need it

        code = zygote.main(sys.argv[2:])
    except Exception:  # noqa: BLE001 - the callers of this function are the agent, and would report it as their own
        sys.excepthook(*sys.exc_info())
    sys.exit(code)

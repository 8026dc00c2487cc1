"""The end of a process that is no child of ours: the kernel tells that it ended, and not how."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable

from jupyter_smx.agent.system.processes.event_loop import READ

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Loop


def watch(loop: Loop, pid: int, gone: Callable[[], None]) -> int:
    """Call back when process ``pid`` has ended and its children have another parent.

    Gives the descriptor to :func:`unwatch`; -1 where the system, or Python 3.8, has none.
    """
    try:
        fd = int(os.pidfd_open(pid))  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):
        return -1
    loop.watch(fd, READ, gone)
    return fd


def unwatch(loop: Loop, fd: int) -> None:
    """Ask no more; harmless for -1."""
    if fd >= 0:
        loop.unwatch(fd)
        os.close(fd)

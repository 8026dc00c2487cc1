"""A script in a fork of the job's process, which watches over what serves it, and ends as the script did."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from jupyter_smx.agent.system.processes import process

_PATIENCE = 10.0
"""Seconds that a script has to end by itself; then it is killed."""


def terminate_script(script: int) -> None:
    """End a script, and what it started, without which it could do nothing."""
    everything = process.tree([script])
    process.kill(everything, signal.SIGTERM)
    process.kill(process.wait_gone(everything, _PATIENCE))
    os.waitpid(script, 0)


def exit_like(status: int) -> NoReturn:
    """End as the script with this wait status did."""
    if os.WIFSIGNALED(status):
        exit_by_signal(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def exit_by_signal(number: int) -> NoReturn:
    """End by a signal."""
    signal.set_wakeup_fd(-1)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)

"""What a process that started others waits for: their ends, being told to end itself, and no longer than it wants."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT = 30.0
"""Seconds; what waits without end is noticed then."""


def printed(text: str) -> str:
    """Run lines in a process of its own, since signals are of the whole process."""
    head = "import os, signal, socket\nfrom jupyter_smx.agent.launchers import child_processes\n"
    head += "waiter = child_processes.SignalWaiter()\n"
    return subprocess.check_output([sys.executable, "-c", head + text], text=True, timeout=LIMIT).strip()


@pytest.mark.parametrize("seconds", ["0", "-0.001", "-3600.0", "0.01"])
def test_who_has_no_time_left_does_not_wait(seconds: str) -> None:
    assert printed(f"print(waiter.wait(seconds={seconds}), waiter.has_sigterm)") == "[] False"


def test_the_end_of_a_child_and_a_wish_to_end_come_as_news() -> None:
    child = "if os.fork() == 0:\n    os._exit(3)\nprint(waiter.wait(), os.WEXITSTATUS(os.wait()[1]))"
    assert printed(child) == "[] 3"
    assert printed("os.kill(os.getpid(), signal.SIGTERM)\nprint(waiter.wait(), waiter.has_sigterm)") == "[] True"


def test_who_can_be_read_is_named() -> None:
    pair = "one, other = socket.socketpair()\nother.send(b'x')\nprint(waiter.wait([other, one]) == [one])"
    assert printed(pair) == "True"

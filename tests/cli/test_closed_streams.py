"""Whoever closes a stream of the command is told nothing on it, and the job is what it would be."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Terminal

COMMAND = (sys.executable, "-m", "jupyter_smx.cli")


@pytest.mark.parametrize(("closed", "out"), [(">&-", ""), ("2>&-", "hello\n"), ("<&-", "hello\n"), (">&- 2>&-", "")])
def test_a_closed_stream_is_written_to_by_nobody(terminal: Terminal, closed: str, out: str) -> None:
    terminal.script("hello.py", "print('hello')")
    done = terminal.run("run", "hello.py", command=["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND])
    assert (done.returncode, done.stdout) == (0, out)
    assert "Traceback" not in done.stderr
    assert ("Completed" in done.stderr) is ("2>&-" not in closed)

"""Named pipes that let a process wait until a test goes on, without a clock and without output."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from pathlib import Path


def reading_job(pipe: Path) -> str:
    """Return the code of a job that prints ``begun``, waits silently for a writer, and prints what it read."""
    return f"print('begun', flush=True)\nprint(open({os.fspath(pipe)!r}).read())\n"


def write_pipe(pipe: Path, text: str) -> None:
    """Wait until a process reads a named pipe, and give it a text and the end of the file.

    :raises AssertionError: no process reads it.
    """

    def open_pipe() -> int:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return 0

    descriptor = eventually_blocking(open_pipe, f"a process reads {pipe.name}", within=30)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)

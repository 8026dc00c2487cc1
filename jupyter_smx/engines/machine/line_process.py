"""Read the lines of a child process, and end it with all that it starts; separate, because two packages install so."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

_PIECE = 65_536


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Give the lines of a stream, however long they are."""
    left = b""
    while piece := await stream.read(_PIECE):
        *whole, left = (left + piece).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        left = left[-_PIECE:]
    if left:
        yield left.decode(errors="replace")


async def kill_group(child: asyncio.subprocess.Process) -> None:
    """End a child that leads a process group, and everything in that group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdin is not None:
        child.stdin.close()
    await child.wait()

"""A file lock for threads, coroutines and processes: one holder at a time."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from jupyter_smx.data_folder.singleton_lock import try_lock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

_PAUSE = 0.02
"""Seconds between two attempts to take a lock that another process holds."""


@contextmanager
def acquire(path: Path, gives_up: Callable[[], bool]) -> Iterator[bool]:
    """Wait for a lock until ``gives_up`` returns True; return True if the lock is held.

    Blocks its thread: in an event loop, a second coroutine that waits for the lock would stop the first one for good.
    Use :func:`acquire_async` in coroutines.

    :raises OSError: the file cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _wait_lock(descriptor, gives_up)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def acquire_async(path: Path, gives_up: Callable[[], bool] = lambda: False) -> AsyncIterator[bool]:
    """Do the same as :func:`acquire` without blocking the event loop. A cancelled caller does not hold the lock.

    :raises OSError: the file cannot be created.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not (taken := try_lock(descriptor)) and not gives_up():  # noqa: ASYNC110 - processes hold it, too
            await asyncio.sleep(_PAUSE)
        yield taken
    finally:
        os.close(descriptor)


def _wait_lock(descriptor: int, gives_up: Callable[[], bool]) -> bool:
    while not (taken := try_lock(descriptor)) and not gives_up():
        time.sleep(_PAUSE)
    return taken

"""Files in folders that a job writes to: nothing is waited for, and only what is a file is read."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def _at_once(path: str, flags: int) -> int:
    """Open what a job may have put a pipe in the place of, to which nobody writes; the agent's loop would hang."""
    return os.open(path, flags | os.O_NONBLOCK)


def opened(path: str) -> BinaryIO:
    """Open a file to read it.

    :raises OSError: it is not there, or it is a pipe, a socket, a device or a folder.
    """
    file = open(path, "rb", opener=_at_once)  # noqa: SIM115 - whoever asked closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is no file", path)

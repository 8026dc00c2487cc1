"""Copy the output of Spark's executors from the files of their worker to their host's log."""

from __future__ import annotations

import contextlib
import glob
import os
from typing import Callable, Dict

_PIECE = 1 << 20
_HEAD = b"Spark Executor Command:"
_HEAD_END = b"=" * 40 + b"\n\n"


class ExecutorLogs:
    """The files below a worker's folder, ``APPLICATION/EXECUTOR/stdout`` and ``stderr``; ``write`` gets whole lines."""

    def __init__(self, folder: str, write: Callable[[bytes], None]) -> None:
        self._files = os.path.join(glob.escape(folder), "*", "*", "std???")
        self._write = write
        self._offsets: Dict[str, int] = {}

    def forward(self, *, last: bool = False) -> None:
        """Show what is new; with ``last`` everything that is left, also where a line has no end."""
        for path in sorted(glob.glob(self._files)):
            with contextlib.suppress(OSError):
                while self._forward_piece(path, last=last):
                    pass

    def _forward_piece(self, path: str, *, last: bool) -> bool:
        """Show the next piece of a file; True where there may be more."""
        begin = self._offsets.get(path, 0)
        with open(path, "rb") as file:
            file.seek(begin)
            data = file.read(_PIECE)
        whole = len(data) == _PIECE
        end = data.rfind(b"\n") + 1 or (len(data) if last or whole else 0)
        if not begin and data.startswith(_HEAD):
            # Skip the command of the executor, a line of two thousand characters that is of no use to the user.
            skipped = data.find(_HEAD_END)
            if skipped < 0:
                return False
            self._offsets[path] = skipped + len(_HEAD_END)
            return True
        if not end:
            return False
        self._offsets[path] = begin + end
        mark = b"[executor %s] " % os.path.basename(os.path.dirname(path)).encode()
        self._write(b"".join(mark + line + b"\n" for line in data[:end].splitlines()))
        return whole or (last and end < len(data))


def write_to_log(data: bytes) -> None:
    """Write to the log of this process's job; what a full disk refuses is lost, as anything that a job prints."""
    with contextlib.suppress(OSError):
        os.write(1, data)

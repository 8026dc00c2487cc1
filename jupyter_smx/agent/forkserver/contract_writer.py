"""Write the files of the contract to the disk, or discard them during a rehearsal."""

from __future__ import annotations

import functools
import os
from typing import Callable

from jupyter_smx.agent.system.named_tuple import NamedTuple

_OPEN_FLAGS = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC
_FILE_MODE = 0o666
"""Before the umask takes its part, as of any file that Python opens."""


class ContractWriter(NamedTuple):
    """Functions that enter and create folders and map paths to files, and the flags with which files are opened."""

    enter: Callable[[str], None]
    make: Callable[[str], None]
    at: Callable[[str], str]
    flags: int

    def write(self, path: str, text: str) -> None:
        """Write a file, and make the folder that it lies in where there is none.

        A text file of Python's would take three times as long, and a fork would copy 200 pages for it.
        """
        rest = memoryview(text.encode())
        fd = self._open(path)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)

    def _open(self, path: str) -> int:
        try:
            return os.open(self.at(path), self.flags, _FILE_MODE)
        except FileNotFoundError:
            self.make(os.path.dirname(path))
            return os.open(self.at(path), self.flags, _FILE_MODE)


DISK_WRITER = ContractWriter(os.chdir, functools.partial(os.makedirs, exist_ok=True), str, _OPEN_FLAGS | os.O_CREAT)
# Creating and removing a folder would double the time of a start. If the device is missing, root must not create a
# file in its place.
NULL_WRITER = ContractWriter(lambda _folder: None, lambda _folder: None, lambda _path: os.devnull, _OPEN_FLAGS)

"""Where the process of a job puts the files of the contract: on the disk, or nowhere while it rehearses."""

from __future__ import annotations

import functools
import os
from typing import Callable, NamedTuple


class Files(NamedTuple):
    """How folders are entered and made, and where the file of a path is."""

    enter: Callable[[str], None]
    make: Callable[[str], None]
    at: Callable[[str], str]

    def write(self, path: str, text: str) -> None:
        """Write a file, and make the folder that it lies in."""
        self.make(os.path.dirname(path))
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(text)


DISK = Files(os.chdir, functools.partial(os.makedirs, exist_ok=True), str)
# A folder that is made and removed again costs as much as the rest of a start.
NOWHERE = Files(lambda _folder: None, lambda _folder: None, lambda _path: os.devnull)

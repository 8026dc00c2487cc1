"""Find out if imports have used an accelerator: neither a driver's state nor an open device survives a fork."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import FrozenSet, Iterator

_HARMLESS = (
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "ptmx",
    "console",
    "pts/",
    "shm/",
    "mqueue/",
    "hugepages",
)
"""Prefixes of devices that a program may share with its parent."""
_FOLDER = "/dev/"
_TORCH_PARTS = {"cuda": "CUDA", "xpu": "XPU", "mps": "MPS", "mtia": "MTIA"}
"""Parts of torch that show if a forked child can use their devices."""
_MAPPED_PATH = 5
"""Index of the file's name in a line of ``maps``."""


def open_devices(process: str = "/proc/self") -> FrozenSet[str]:
    """Return the devices that a process has open or mapped, without harmless ones; none without a list."""
    files = {*_open_files(process), *_mapped_files(process)}
    devices = (path for path in files if path.startswith(_FOLDER))
    return frozenset(path for path in devices if not path[len(_FOLDER) :].startswith(_HARMLESS))


def _open_files(process: str) -> Iterator[str]:
    folder = os.path.join(process, "fd")
    with contextlib.suppress(OSError):
        for number in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield os.readlink(os.path.join(folder, number))


def _mapped_files(process: str) -> Iterator[str]:
    with contextlib.suppress(OSError), open(os.path.join(process, "maps"), encoding="utf-8", errors="replace") as file:
        for line in file:
            if "/dev/" in line:
                yield line.split(None, _MAPPED_PATH)[_MAPPED_PATH].strip()


def initialised_accelerator() -> str:
    """Name the accelerator that torch has initialised in this process, '' if there is none."""
    return next(_parts_that_say("is_initialized"), "")


def unusable_accelerator() -> str:
    """Name the accelerator that torch refuses to use in this process, a forked child; '' if it refuses none.

    A look at an accelerator in the parent is enough for that: ``torch.cuda.is_available()`` at the import of a package.
    """
    return next(_parts_that_say("_is_in_bad_fork"), "")


def _parts_that_say(question: str) -> Iterator[str]:
    torch = sys.modules.get("torch")
    for part, name in _TORCH_PARTS.items():
        answer = getattr(getattr(torch, part, None), question, None)
        if callable(answer) and answer() is True:
            yield name

"""Mark the processes of a host by a resource limit, which they inherit and which a cleaned environment keeps.

The limit is ``RLIMIT_LOCKS``. Linux has not enforced it since version 2.4.25 (``man 2 setrlimit``), and shows it to
every user in ``/proc/PID/limits``.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Container

_RLIMIT_LOCKS = 10
"""Its number in Linux; Python has no name for it."""
_LINE = "Max file locks"
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_HASH_MASK, _HIGH_BIT = (1 << 61) - 1, 1 << 61


def limit_of(marker: str) -> int:
    """Return the limit that stands for a host, ``<cluster>/<host>``: its FNV-1a hash, high enough to limit nothing."""
    found = _FNV_OFFSET
    for byte in marker.encode("utf-8", "surrogateescape"):
        found = ((found ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return found & _HASH_MASK | _HIGH_BIT


def apply(marker: str) -> None:
    """Mark this process and all that it starts from now on; nothing changes where the system refuses."""
    if not sys.platform.startswith("linux"):
        return
    import resource  # noqa: PLC0415 - Windows has no such module, and only agents need it

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(_RLIMIT_LOCKS, (limit_of(marker), resource.getrlimit(_RLIMIT_LOCKS)[1]))


def has_limit(pid: int, limits: Container[int]) -> bool:
    """Return True if a process has one of these limits; False if it is gone, or hidden."""
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            word = next((line.split()[3] for line in file if line.startswith(_LINE)), "")
    except OSError:
        return False
    return word.isdecimal() and int(word) in limits

"""Collapse the memory of a process into huge pages: forks of it and exits of its children take less time.

Both walk every page that a process has written. Modules write tens of thousands of small ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import time
from typing import Callable, Iterator, List, NamedTuple

from jupyter_smx.agent.system.processes import process

_SETTINGS = "/sys/kernel/mm/transparent_hugepage/"
_COLLAPSE = 25
"""Linux's ``MADV_COLLAPSE``, since 6.1; it fails before."""
_PAGE = 4096
_MIN_SHARE = 0.9
"""Part of a huge page that must be in use, because collapsing it fills the rest."""
BUDGET = 0.3
"""Seconds after which no further memory is collapsed: where memory is fragmented, the kernel moves pages first."""
_STEP = 16
"""Huge pages of one call."""
_PRIVATE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?$", re.MULTILINE)
"""A row of ``/proc/self/maps`` of memory that no file backs."""


class Area(NamedTuple):
    """Addresses from ``begin`` to before ``end``."""

    begin: int
    end: int


def private_areas(maps: str) -> List[Area]:
    """Return the writable memory without a file in the text of ``/proc/self/maps``."""
    return [Area(int(begin, 16), int(end, 16)) for begin, end in _PRIVATE.findall(maps)]


def full_areas(area: Area, size: int, is_full: Callable[[Area], bool]) -> Iterator[Area]:
    """Yield the parts of an area that consist of whole huge pages of ``size`` bytes which are in use."""
    begin = following = -(-area.begin // size) * size
    while following + size <= area.end:
        page = Area(following, following + size)
        following = page.end
        if not is_full(page):
            if page.begin > begin:
                yield Area(begin, page.begin)
            begin = page.end
    if following > begin:
        yield Area(begin, following)


def _is_resident(page: Area) -> bool:
    count = (page.end - page.begin) // _PAGE
    states = (ctypes.c_ubyte * count)()
    where, size = ctypes.c_void_p(page.begin), ctypes.c_size_t(page.end - page.begin)
    return process.libc().mincore(where, size, states) == 0 and sum(state & 1 for state in states) >= count * _MIN_SHARE


def _page_size() -> int:
    """Return the bytes of a huge page; 0 if the system has none, or its administrator allows none."""
    with contextlib.suppress(OSError, ValueError):
        with open(_SETTINGS + "enabled", encoding="ascii") as file:
            is_allowed = "[never]" not in file.read()
        with open(_SETTINGS + "hpage_pmd_size", encoding="ascii") as file:
            return int(file.read()) if is_allowed else 0
    return 0


def can_collapse() -> bool:
    """Return True if this system collapses memory into huge pages."""
    # Of no bytes, the call only checks its last argument.
    return _page_size() > 0 and process.libc().madvise(None, ctypes.c_size_t(0), _COLLAPSE) == 0


def collapse() -> None:
    """Collapse the memory that this process has in use, as far as the system can; blocks for :data:`BUDGET` seconds."""
    size, deadline = _page_size(), time.monotonic() + BUDGET
    if not can_collapse():
        return
    for area in private_areas(process.read_file("/proc/self/maps")):
        for part in full_areas(area, size, _is_resident):
            for begin in range(part.begin, part.end, _STEP * size):
                if time.monotonic() >= deadline:
                    return
                length = min(_STEP * size, part.end - begin)
                # What it cannot collapse stays as it is.
                process.libc().madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), _COLLAPSE)

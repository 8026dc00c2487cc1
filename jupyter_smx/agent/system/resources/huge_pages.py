"""Collapse the memory of a process into huge pages: forks of it and exits of its children take less time.

Both walk every page that a process has written. Modules write tens of thousands of small ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import time
from typing import Iterable, Iterator, List

from jupyter_smx.agent.system.named_tuple import NamedTuple
from jupyter_smx.agent.system.processes import process

_SETTINGS = "/sys/kernel/mm/transparent_hugepage/"
_COLLAPSE = 25
"""Linux's ``MADV_COLLAPSE``, since 6.1; it fails before."""
_PAGE = 4096
_MIN_SHARE = 0.9
"""Part of a huge page that must be in use, because collapsing it fills the rest."""
_BUDGET = 0.3
"""Seconds after which no further memory is collapsed: where memory is fragmented, the kernel moves pages first."""
_STEP = 16
"""Huge pages of one call that collapses them."""
_WINDOW = 256
"""Huge pages of one call that reads which memory is in use."""
_ABSENT = bytes(range(0, 256, 2))
"""States of pages that are not in use: only the lowest bit of ``mincore`` has a meaning."""
_PRIVATE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?$", re.MULTILINE)
"""A row of ``/proc/self/maps`` of memory that no file backs."""


class Area(NamedTuple):
    """Addresses from ``begin`` to before ``end``."""

    begin: int
    end: int


def private_areas(maps: str) -> List[Area]:
    """Return the writable memory without a file in the text of ``/proc/self/maps``."""
    return [Area(int(begin, 16), int(end, 16)) for begin, end in _PRIVATE.findall(maps)]


def windows(areas: Iterable[Area], size: int) -> Iterator[Area]:
    """Yield the whole huge pages of ``size`` bytes in areas, some at a time; the largest area comes last.

    A library may reserve more address space than can be looked through in time, and use little of it.
    """
    for area in sorted(areas, key=lambda one: one.end - one.begin):
        begin, end = -(-area.begin // size) * size, area.end // size * size
        for start in range(begin, end, _WINDOW * size):
            yield Area(start, min(start + _WINDOW * size, end))


def full_areas(window: Area, size: int, states: bytes) -> Iterator[Area]:
    """Yield the parts of a window that consist of huge pages of ``size`` bytes in use; ``states`` has one per page."""
    if states == bytes(len(states)):
        return  # an untouched window costs no loop
    count, begin = size // _PAGE, window.begin
    for number, start in enumerate(range(window.begin, window.end, size)):
        in_use = states[number * count : (number + 1) * count].translate(None, _ABSENT)
        if len(in_use) < count * _MIN_SHARE:
            if start > begin:
                yield Area(begin, start)
            begin = start + size
    if window.end > begin:
        yield Area(begin, window.end)


def _page_states(window: Area, buffer: "ctypes.Array[ctypes.c_char]") -> bytes:
    """Return the state of each page of a window, "" if the kernel refuses; ``buffer`` has a byte for each."""
    size = window.end - window.begin
    where, length = ctypes.c_void_p(window.begin), ctypes.c_size_t(size)
    return ctypes.string_at(buffer, size // _PAGE) if process.libc().mincore(where, length, buffer) == 0 else b""


def _allowed_page_size() -> int:
    """Return the bytes of a huge page; 0 if the system has none, or its administrator allows none."""
    with contextlib.suppress(OSError, ValueError):
        with open(_SETTINGS + "enabled", encoding="ascii") as file:
            is_allowed = "[never]" not in file.read()
        with open(_SETTINGS + "hpage_pmd_size", encoding="ascii") as file:
            return int(file.read()) if is_allowed else 0
    return 0


def page_size() -> int:
    """Return the bytes of a huge page into which this system collapses memory; 0 if it does not."""
    size = _allowed_page_size()
    # Of no bytes, the call only checks its last argument.
    return size if size and process.libc().madvise(None, ctypes.c_size_t(0), _COLLAPSE) == 0 else 0


def collapse() -> None:
    """Collapse the memory that this process has in use, as far as the system can, for 0.3 seconds at most; blocks."""
    size, deadline = page_size(), time.monotonic() + _BUDGET
    if not size:
        return
    buffer = ctypes.create_string_buffer(_WINDOW * size // _PAGE)
    for window in windows(private_areas(process.read_file("/proc/self/maps")), size):
        if time.monotonic() >= deadline:
            return
        for part in full_areas(window, size, _page_states(window, buffer)):
            _collapse_area(part, size, deadline)


def _collapse_area(area: Area, size: int, deadline: float) -> None:
    for begin in range(area.begin, area.end, _STEP * size):
        if time.monotonic() >= deadline:
            return
        length = min(_STEP * size, area.end - begin)
        # What it cannot collapse stays as it is.
        process.libc().madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), _COLLAPSE)

"""Detect that a file grew: by inotify if available, else by polling."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Callable, Dict

from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, Loop

if TYPE_CHECKING:
    from jupyter_smx.agent.system.processes.event_loop import Timer

_IN_MODIFY = 0x2
_IN_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000
_EVENT = struct.Struct("iIII")
_POLL = 0.05
_COALESCE = 0.02


class LogWatch:
    """Calls back for each watched file that was written to; a watched file may be renamed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._calls: Dict[int, Callable[[], None]] = {}
        self._timers: Dict[int, Timer] = {}
        self._number = 0
        self._fd = process.libc().inotify_init1(_IN_NONBLOCK_CLOEXEC) if process.LINUX else -1
        if self._fd >= 0:
            self._rescan()

    def add(self, path: str, call: Callable[[], None]) -> int:
        """Watch a file that exists; return a number for :meth:`remove`."""
        number = -1
        if self._fd >= 0:
            number = int(process.libc().inotify_add_watch(self._fd, os.fsencode(path), _IN_MODIFY))
        if number < 0:
            self._number -= 1
            number = self._number - 1
            self._poll(number, call)
            return number
        self._calls[number] = call
        return number

    def _poll(self, number: int, call: Callable[[], None]) -> None:
        def look() -> None:
            self._timers[number] = self._loop.later(_POLL, look)
            call()

        self._timers[number] = self._loop.later(_POLL, look)

    def remove(self, number: int) -> None:
        """Stop watching."""
        if self._calls.pop(number, None) is not None:
            process.libc().inotify_rm_watch(self._fd, number)
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def _rescan(self) -> None:
        self._loop.watch(self._fd, READ, self._events)

    def _events(self) -> None:
        try:
            data = os.read(self._fd, 65_536)
        except BlockingIOError:
            return
        # A flood of writes causes one call per window; in between, the kernel keeps them as one event.
        self._loop.unwatch(self._fd)
        self._loop.later(_COALESCE, self._rescan)
        changed = set()
        offset = 0
        while offset < len(data):
            number, _mask, _cookie, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size + length
            changed.add(number)
        for number in changed:
            call = self._calls.get(number)
            if call is not None:
                call()

"""A single-threaded event loop for descriptors, timers and exits of processes."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import socket
import time
from typing import Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent.system.processes import process

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
# The monotonic clock stops while a laptop sleeps; waking this often lets the deadline's own clock be looked at.
_LONGEST_WAIT = 10.0
_PURGE_THRESHOLD = 64
"""Timers among which it is worth looking for those that were cancelled: a job's longest limit is a day away."""

Callback = Callable[[], None]
OnExit = Callable[[int], None]


class Timer:
    """A call that is due at a moment of the loop's clock, unless it is cancelled before."""

    def __init__(self, call: Callback) -> None:
        self.call: Optional[Callback] = call

    def cancel(self) -> None:
        """Never call; harmless when it was called already."""
        self.call = None


class Loop:
    """Calls back for ready descriptors, due timers, signals and processes that ended."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: List[Tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._purge_threshold = _PURGE_THRESHOLD
        self._on_exit: Dict[int, OnExit] = {}
        self._on_signal: Dict[int, Callback] = {}
        # Called for each orphan that exited, with its pid and its CPU seconds, including those of its reaped children.
        self.on_orphan_exit: Optional[Callable[[int, float], None]] = None
        self._running = False
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self.watch(self._wake_in.fileno(), READ, self._signals)

    def run(self) -> None:
        """Serve until :meth:`stop`; an error of one callback is written to the log and the others go on."""
        old = signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        self.on_signal(signal.SIGCHLD, self.reap)
        self._running = True
        try:
            while self._running:
                self._once()
        finally:
            signal.set_wakeup_fd(old)

    def stop(self) -> None:
        """Leave :meth:`run` after the current callback."""
        self._running = False

    def _once(self) -> None:
        wait = _LONGEST_WAIT
        if self._timers:
            wait = min(wait, max(0.0, self._timers[0][0] - time.monotonic()))
        for key, events in self._selector.select(wait):
            # An earlier callback of this round may have stopped watching it.
            if self._selector.get_map().get(key.fd) is key and self._running:
                self._call(key.data, events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now and self._running:
            timer = heapq.heappop(self._timers)[2]
            call, timer.call = timer.call, None
            if call is not None:
                self._call(call)

    @staticmethod
    def _call(callback: Callable[..., None], *arguments: int) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - the border of the loop: an error of one job must not end the host
            process.print_error(error)

    def watch(self, fd: int, events: int, callback: Callback, on_write: Optional[Callback] = None) -> None:
        """Call back when ``fd`` is readable, and ``on_write`` when it is writable; replaces what was asked before."""

        def ready(which: int) -> None:
            if which & READ:
                callback()
            if which & WRITE and on_write is not None and fd in self._selector.get_map():
                on_write()

        if fd in self._selector.get_map():
            self._selector.modify(fd, events, ready)
        else:
            self._selector.register(fd, events, ready)

    def unwatch(self, fd: int) -> None:
        """Stop watching a descriptor; does nothing if it is not watched."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def later(self, seconds: float, call: Callback) -> Timer:
        """Call once after ``seconds``."""
        if len(self._timers) >= self._purge_threshold:
            self.purge_timers()
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def purge_timers(self) -> None:
        """Drop the cancelled timers; :meth:`later` calls it when there are many."""
        self._timers = [row for row in self._timers if row[2].call is not None]
        heapq.heapify(self._timers)
        self._purge_threshold = max(_PURGE_THRESHOLD, 2 * len(self._timers))

    def on_signal(self, number: int, callback: Callback) -> None:
        """Call back, outside the signal handler, after the signal."""
        self._on_signal[number] = callback
        signal.signal(number, self._keep_early)

    def _keep_early(self, number: int, _frame: object) -> None:
        """Keep a signal that comes before the loop runs; from then on the system reports each by the descriptor."""
        if not self._running:
            with contextlib.suppress(OSError):  # full of others, or closed after the loop
                self._wake_out.send(bytes([number]))

    def _signals(self) -> None:
        try:
            numbers = set(self._wake_in.recv(4096))
        except BlockingIOError:
            return
        for number in sorted(numbers):
            callback = self._on_signal.get(number)
            if callback is not None:
                self._call(callback)

    def on_exit(self, pid: int, callback: OnExit) -> None:
        """Call back with the wait status of a child of this process when it ended."""
        self._on_exit[pid] = callback

    def watched_pids(self) -> List[int]:
        """Return the processes whose exit has a callback."""
        return list(self._on_exit)

    def unwatch_exit(self, pid: int) -> None:
        """Call no function at the exit of a process; it is still reaped."""
        self._on_exit.pop(pid, None)

    def reap(self) -> None:
        """Reap every child that exited, orphans included."""
        while True:
            try:
                pid, status, spent = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            callback = self._on_exit.pop(pid, None)
            if callback is not None:
                self._call(callback, status)
            elif self.on_orphan_exit is not None:
                self.on_orphan_exit(pid, spent.ru_utime + spent.ru_stime)

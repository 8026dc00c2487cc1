"""Run pip for a job, copy its output to the log, and end it early if it only repeats failed connections."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections import deque
from typing import IO, Deque, Iterator, List, Optional

from jupyter_smx.agent.system.named_tuple import NamedTuple

_LAST = 40
"""Lines of pip's that are looked at where it fails."""
_PATIENCE = 15.0
"""Seconds of failed connections after which pip is ended; by default it repeats each of them five times."""
_SLOW = 5.0
"""Seconds of a failed connection that nothing refuses: a firewall drops its packets, or a name server is away."""
_KILL_AFTER = 2.0
"""Seconds that pip has to end."""
_CHUNK_SIZE = 65_536
_RETRY = re.compile(r"Retrying \(Retry\(")
_CONNECTS_NEXT = re.compile(r"Looking in |Collecting |Requirement already |Ignoring |WARNING: ")
"""Begins of lines after which pip connects; after others it may download, build or clone for long without a word."""
_NO_CONNECTION = re.compile(r"ConnectTimeoutError|NewConnectionError|NameResolutionError")
_NETWORK_ERRORS = re.compile(
    r"failed to establish a new connection|name resolution|network is unreachable|connection (refused|timed out)"
    r"|read timed out|proxyerror|connecttimeout|newconnectionerror|nameresolutionerror",
    re.IGNORECASE,
)


class PipEnd(NamedTuple):
    """How pip ended. ``is_cut_off`` is True if it could not reach a server."""

    code: int
    is_cut_off: bool


class RetryWatch:
    """Measures for how long pip has only repeated failed connections, and when it is to be ended.

    A single failure says little, unless it took long: a slow index may answer the second time. pip starts at ``now``.
    """

    def __init__(self, patience: float, now: float) -> None:
        self._patience = patience
        self._connects_since: Optional[float] = now
        self._first_retry: Optional[float] = None
        self._deadline: Optional[float] = None

    def update(self, line: str, now: float) -> None:
        """Process a line of pip's."""
        if not _RETRY.search(line):
            if line.strip():
                self._connects_since = now if _CONNECTS_NEXT.match(line) else None
                self._first_retry, self._deadline = None, None
        elif self._first_retry is None:
            self._first_retry, began = now, self._connects_since
            if began is not None and now - began > _SLOW and _NO_CONNECTION.search(line):
                self._deadline = began + self._patience
        elif self._deadline is None:
            self._deadline = self._first_retry + self._patience

    def remaining(self, now: float) -> Optional[float]:
        """Return the seconds until pip is to be ended, None if it makes progress."""
        return None if self._deadline is None else max(0.0, self._deadline - now)


def run_pip(words: List[str], folder: str, patience: float = _PATIENCE) -> PipEnd:
    """Run pip in a folder; copy its output to the log. ``patience`` are the seconds of failed connections."""
    last: Deque[str] = deque(maxlen=_LAST)
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as pip:
        assert pip.stdout is not None  # noqa: S101 - for the type checker
        watch = RetryWatch(patience, time.monotonic())
        for line in _lines(pip.stdout, watch):
            last.append(line)
            watch.update(line, time.monotonic())
            sys.stdout.write(line)
            sys.stdout.flush()
        is_over = watch.remaining(time.monotonic()) == 0 and pip.poll() is None
        if is_over:
            _end(pip)
    return PipEnd(pip.returncode, is_over or bool(pip.returncode and _NETWORK_ERRORS.search("".join(last))))


def _lines(stream: IO[bytes], watch: RetryWatch) -> Iterator[str]:
    """Yield the lines of a stream until it ends, or until ``watch`` says that pip is to be ended."""
    waiting = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            remaining = watch.remaining(time.monotonic())
            if remaining == 0 or not selector.select(remaining):
                if watch.remaining(time.monotonic()) == 0:
                    break
                continue
            piece = os.read(stream.fileno(), _CHUNK_SIZE)
            if not piece:
                break
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace") + "\n"
    if waiting:
        yield waiting.decode("utf-8", "replace")


def _end(pip: "subprocess.Popen[bytes]") -> None:
    pip.terminate()
    try:
        pip.wait(_KILL_AFTER)
    except subprocess.TimeoutExpired:
        pip.kill()

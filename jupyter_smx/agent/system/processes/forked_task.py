"""Run slow file operations in a forked process of the agent, so that its loop never waits for a disk."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from jupyter_smx.agent.errors import RefusalError
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, Loop

_NICE = 10
_PATIENCE = 10.0
"""Seconds in which a killed task has to exit: one that waits for a disk may never do so."""
PRESERVED_FDS: Set[int] = set()
"""Descriptors that errands need open."""

OnDone = Callable[[Optional[Dict[str, Any]], str], None]
"""Called with the result, or with None and an error message."""


def _close_all_but(fd: int) -> None:
    """Close the agent's descriptors: a child exits only when the last copy of its socket is closed."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(4096))
    for number in numbers:
        if number > 2 and number != fd and number not in PRESERVED_FDS:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
            with contextlib.suppress(OSError):
                os.close(number)


def answer_of(work: Callable[[], Dict[str, Any]]) -> Tuple[Optional[Dict[str, Any]], str]:
    """Do a piece of work here; give what ``OnDone`` takes."""
    try:
        return work(), ""
    except RefusalError as refusal:
        return None, str(refusal)
    except Exception as error:  # noqa: BLE001 - border: any failure of the work is an answer
        return None, f"{type(error).__name__}: {error}"


def _work(work: Callable[[], Dict[str, Any]], fd: int) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        process.die_with_parent()
        _close_all_but(fd)
        os.nice(_NICE)
        with open(fd, "w", encoding="utf-8") as pipe:
            result, error = answer_of(work)
            json.dump({"error": error} if result is None else {"result": result}, pipe)
        code = 0
    except BaseException as failure:  # noqa: BLE001 - border: this process must not continue as a second agent
        process.print_error(failure)
    finally:
        os._exit(code)


class ForkedTask:
    """Run one piece of work; :meth:`cancel` kills it without a callback, :meth:`abort` kills it and calls back."""

    def __init__(self, loop: Loop, work: Callable[[], Dict[str, Any]], done: OnDone) -> None:
        self._loop = loop
        self._done: Optional[OnDone] = done
        self.was_aborted = False
        """True if :meth:`abort` ended it, so that an immediate repetition is of no use."""
        self._answer: List[bytes] = []
        self._pid = 0
        self._gone: Optional[Callable[[], None]] = None
        try:
            self._begin(work)
        except OSError as error:
            reason = f"no process could be started ({error.strerror})"
            loop.later(0, lambda: self._finish(None, reason))

    def _begin(self, work: Callable[[], Dict[str, Any]]) -> None:
        ours, theirs = os.pipe()
        with contextlib.suppress(OSError):  # the log may lie on a full disk
            sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise
        if pid == 0:
            _work(work, theirs)
        os.close(theirs)
        self._pid = pid
        self._loop.on_exit(pid, lambda _status: self._on_exit())
        self._loop.watch(ours, READ, lambda: self._read(ours))

    def _on_exit(self) -> None:
        self._pid = 0  # the pid may be reused
        self._notify_gone()

    def _notify_gone(self) -> None:
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def _read(self, fd: int) -> None:
        data = os.read(fd, 1 << 20)
        if data:
            self._answer.append(data)
            return
        self._loop.unwatch(fd)
        os.close(fd)
        self._pid = 0
        try:
            answer = json.loads(b"".join(self._answer).decode())
        except ValueError:
            answer = {"error": "it was killed before it was done"}
        self._finish(answer.get("result"), answer.get("error", ""))

    def _finish(self, result: Optional[Dict[str, Any]], error: str) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result, error)

    def activity(self) -> List[str]:
        """Return values that change with any activity of the task or its children; empty if they cannot be read."""
        return process.activity(process.tree([self._pid])) if self._pid else []

    def abort(self, why: str) -> None:
        """End it now, as failed; its callback gets ``why``, also if its process cannot be killed."""
        done = self._done
        self.cancel()
        self.was_aborted = True
        if done is not None:
            done(None, why)

    def cancel(self) -> None:
        """End it now."""
        self._done = None
        if self._pid:
            process.kill([self._pid])

    def cancel_and_wait(self, gone: Callable[[], None]) -> None:
        """Cancel it; call ``gone`` when its process has exited, or has not for a long time."""
        self.cancel()
        if self._pid:
            self._gone = gone
            self._loop.later(_PATIENCE, self._notify_gone)
        else:
            gone()

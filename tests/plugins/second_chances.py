"""Second chances of tests: which took one, and how those get one that do not end.

pytest-timeout interrupts a test once. A loop that does not close behind it, or a second run of the same test, has no
limit then; faulthandler's own timer is gone after the first failure. So a thread beside the tests ends the worker, and
xdist, which notices a worker's end, gives the test and those behind it to a new one.
"""

from __future__ import annotations

import faulthandler
import os
import queue
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEARDOWN_SECONDS = 60
_EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h."""
_LAST_LINES = 12
"""Lines of a first failure that are shown."""

_taken: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write behind pytest's own last line which tests failed at first. Each of them has a race."""
    yield
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.getoption("reruns", None) and not hasattr(config, "workerinput"):
        taken = sorted(reporter.stats.get("rerun", ()), key=lambda report: str(report.nodeid))
        reporter.write_line(f"== second chances taken: {len(taken)}", yellow=bool(taken))
        for report in taken:
            reporter.write_line(f"   {report.nodeid}")
            for line in report.longreprtext.splitlines()[-_LAST_LINES:]:
                reporter.write_line(f"      {line}")


class _Limit(NamedTuple):
    """When a test must have ended: its name, seconds from now, and where to write if it has not."""

    test: str
    seconds: float
    errors: int


_begun: queue.SimpleQueue[_Limit] = queue.SimpleQueue()
_ended: queue.SimpleQueue[None] = queue.SimpleQueue()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the thread that ends this process, where it is a worker.

    One thread for all tests, older than any of them: a process with a thread that shares its folders cannot leave the
    namespace of a test.
    """
    if hasattr(session.config, "workerinput"):
        threading.Thread(target=_watch, daemon=True).start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Limit the test with all its phases and its second chance, where it runs in a worker."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    # Standard error as it was before pytest began to keep what tests write.
    errors = item.config.stash[fault_handler_stderr_fd_key]
    _begun.put(_Limit(item.nodeid, limit_of(item), errors))
    try:
        return (yield)
    finally:
        _ended.put(None)


def _watch() -> None:
    while True:
        limit = _begun.get()
        try:
            _ended.get(timeout=limit.seconds)
        except queue.Empty:
            _end_worker(limit)


def limit_of(item: pytest.Item) -> float:
    """Give the seconds after which no timeout of pytest's own can still be ahead."""
    marker = item.get_closest_marker("timeout")
    own = marker.args[0] if marker is not None and marker.args else item.config.getini("timeout")
    return 2 * float(own or 0) + _TEARDOWN_SECONDS


def _end_worker(limit: _Limit) -> None:
    """Write all stacks to the run's standard error, then end this process without any clean-up."""
    os.write(limit.errors, f"\n== {limit.test} does not end; all stacks of its worker:\n".encode())
    faulthandler.dump_traceback(file=limit.errors)
    os._exit(_EXIT_CODE)


@pytest.hookimpl(wrapper=True, optionalhook=True)  # xdist knows it, and runs without xdist have no use for it
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> Iterator[None]:
    """Call the first end of a worker a second chance of its test: xdist runs an unfinished test again anyway.

    A wrapper, since pytest-rerunfailures calls it a failure where files stay together.
    """
    yield
    if crashitem not in _taken:
        _taken.add(crashitem)
        report.outcome = "rerun"  # type: ignore[assignment]

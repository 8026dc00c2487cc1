"""The last lines of a run with ``--reruns``: which tests failed at first, and how. Each of them has a race."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_LAST_LINES = 12
"""Lines of a first failure that are shown."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write the lines behind pytest's own last one."""
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

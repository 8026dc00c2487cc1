"""The last line of a run with ``--reruns``: which tests failed at first. Each of them has a race."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write the line behind pytest's own last one."""
    yield
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.getoption("reruns", None) and not hasattr(config, "workerinput"):
        taken = sorted({report.nodeid for report in reporter.stats.get("rerun", ())})
        reporter.write_line(f"== second chances taken: {len(taken)}", yellow=bool(taken))
        for name in taken:
            reporter.write_line(f"   {name}")

"""A pytest plugin for tests of engines: its fixtures, and a check that each test leaves nothing behind.

The ``conftest.py`` of an engine's tests loads it::

    pytest_plugins = ("jupyter_smx.testing.pytest_plugin",)
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.testing import eventually as waiting
from jupyter_smx.testing.leftovers import COUNTER, LEFTOVERS, RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NASTY_NAME = 'it\'s a "nasty" $(name) %s & 日本 ünï'
"""Name of a folder that breaks careless code."""
_END_TIMEOUT = 3.0
"""Seconds until the processes that a test ended must be gone."""


def pytest_configure() -> None:
    """Mark all that this test run starts, and let it end by Ctrl-C."""
    COUNTER.install()
    # A shell ignores Ctrl-C for what it runs in the background, and all that the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[RUN] = f"{os.getpid()}-{secrets.token_hex(4)}"


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """Fail a test that leaves an agent, a job, a controller or a listening unix socket, and end these. Linux only."""
    if sys.platform != "linux":
        yield
        return
    LEFTOVERS.look()
    yield
    if not LEFTOVERS.is_needed():
        return
    try:
        waiting.eventually_blocking(LEFTOVERS.is_clean, within=_END_TIMEOUT)
    except AssertionError:
        pytest.fail("The test left behind:\n" + "\n".join(LEFTOVERS.kill()), pytrace=False)


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Return :func:`jupyter_smx.testing.eventually.eventually`."""
    return waiting.eventually


@pytest.fixture
def eventually_blocking() -> Callable[..., object]:
    """Return :func:`jupyter_smx.testing.eventually.eventually_blocking`, for tests without an event loop."""
    return waiting.eventually_blocking


@pytest.fixture
def nasty_path(tmp_path: Path) -> Path:
    """Return an existing folder whose name has spaces, quotes, shell syntax, a percent sign and Unicode."""
    folder = tmp_path / NASTY_NAME
    folder.mkdir()
    return folder

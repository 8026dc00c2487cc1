"""What all tests share: waiting for an event, names that break careless code, and a check that nothing stays behind."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.testing import eventually as waiting
from jupyter_smx.testing import process_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "JUPYTER_SMX_TEST_RUN"
"""Environment variable that all processes of this test run inherit, so that two runs on one machine never mix."""


pytest.register_assert_rewrite("jupyter_smx.testing.groups")
pytest_plugins = ("jupyter_smx.testing.docker.fixtures", "jupyter_smx.testing.docker.registry")


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores Ctrl-C for what it runs in the background, and all that the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[RUN] = f"{os.getpid()}-{secrets.token_hex(4)}"
    # What the developer's own Docker is told, as proxies, is for none of the containers here.
    folder = tempfile.mkdtemp(prefix="smx-docker-")
    config.add_cleanup(lambda: shutil.rmtree(folder))
    Path(folder, "config.json").write_text("{}", encoding="utf-8")
    os.environ["DOCKER_CONFIG"] = folder


@pytest.fixture
def eventually() -> object:
    """Give ``await eventually(condition, what, within=15.0)``."""
    return waiting.eventually


@pytest.fixture
def eventually_blocking() -> object:
    """Give ``eventually_blocking(condition, what, within=15.0)`` for tests without an event loop."""
    return waiting.eventually_blocking


@pytest.fixture
def nasty_path(tmp_path: Path) -> Path:
    """Give an existing folder whose name has spaces, quotes, shell syntax, a percent sign and Unicode."""
    folder = tmp_path / 'it\'s a "nasty" $(name) %s & 日本 ünï'
    folder.mkdir()
    return folder


@pytest.fixture
def deep_path(tmp_path: Path) -> Iterator[Path]:
    """Give the test's own folder and empty it again however deep it goes, which pytest itself cannot."""
    yield tmp_path
    for inside in tmp_path.iterdir():
        rmtree.remove_if_possible(str(inside))


def _ours() -> dict[tuple[int, str], process_scan.ProcessInfo]:
    """Find agents, jobs and controllers of this test run."""
    line = f"{RUN}={os.environ[RUN]}"
    return {
        (seen.pid, seen.started): seen
        for seen in process_scan.processes(line)
        if seen.pid != os.getpid()
        and seen.has_variable(line)
        and (seen.host() or "jupyter_smx.controller" in seen.command)
    }


def _listening() -> set[str]:
    return process_scan.listening_sockets(os.getpid())


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """Fail a test that leaves an agent, a job, a controller or a listening unix socket (bug 33 of the catalogue).

    What a fixture of a wider scope started before the test may stay, and so may the next parked child of its hosts.
    """
    if sys.platform != "linux":
        yield
        return
    before, sockets = _ours(), _listening()
    hosts = {seen.host() for seen in before.values()} - {""}
    yield

    def left_behind() -> list[process_scan.ProcessInfo]:
        return [seen for key, seen in _ours().items() if key not in before and seen.host() not in hosts]

    def is_clean() -> bool:
        return not left_behind() and _listening() <= sockets

    try:
        waiting.eventually_blocking(is_clean, within=3.0)
    except AssertionError:
        left = left_behind()
        for seen in left:
            process_scan.kill(seen.pid)
        names = [f"process {seen.pid} of {seen.host() or 'no host'}: {seen.command}" for seen in left]
        names += [f"socket {name}" for name in _listening() - sockets]
        pytest.fail("The test left behind:\n" + "\n".join(names), pytrace=False)

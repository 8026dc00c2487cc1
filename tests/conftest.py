"""What all tests share beside the plugin that ships: Hypothesis' profiles, and which tests a run leaves out."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import heavy
import pytest
from hypothesis import HealthCheck, settings
from plugins.second_chances import (
    pytest_handlecrashitem,
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_sessionstart,
)

from jupyter_smx.agent.system.files import rmtree
from jupyter_smx.agent.system.resources.log_limit import BLOCK, punch
from jupyter_smx.testing.leftovers import COUNTER
from plugins import machine_state

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["pytest_handlecrashitem", "pytest_runtest_protocol", "pytest_sessionfinish", "pytest_sessionstart"]

OPTION = "--no-processes"

# Few examples, the same each time: a red build is red for everybody. --hypothesis-profile chooses another profile.
settings.register_profile(
    "ci", max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "heavy", max_examples=150, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile("long", settings.get_profile("heavy"), max_examples=5_000)
settings.load_profile("ci")

pytest.register_assert_rewrite("jupyter_smx.testing.groups")
pytest_plugins = (
    "jupyter_smx.testing.docker.fixtures",
    "jupyter_smx.testing.docker.registry",
    "jupyter_smx.testing.pytest_plugin",
    "plugins.temporary_files",
    "worlds.slurm.slurm_fixture",
    "worlds.ssh.fixture",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, action="store_true", help="leave out tests marked processes; fail any other that starts one"
    )
    parser.addoption(heavy.OPTION, metavar="PART", help="run the heavy tests of this part, and no other tests")


def pytest_configure(config: pytest.Config) -> None:
    # What the developer's own Docker is told, as proxies, is for none of the containers here.
    folder = tempfile.mkdtemp(prefix="smx-docker-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    Path(folder, "config.json").write_text("{}", encoding="utf-8")
    os.environ["DOCKER_CONFIG"] = folder


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Look for no garbage among what is collected: all of it stays. Write the bytecode
    of tests and of all that they import, for the next run.

    Under PYTHONDONTWRITEBYTECODE each worker of each run would rewrite the assertions of all files again. Runs without
    pytest's cache keep nothing: those of ``mutation.py`` change a module faster than its bytecode shows.
    """
    keeps_none = sys.dont_write_bytecode
    gc.disable()
    if session.config.pluginmanager.has_plugin("cacheprovider"):
        sys.dont_write_bytecode = False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = keeps_none
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out heavy tests, or everything but one part of them, and what starts processes where none may start."""
    kept = [item for item in items if _is_chosen(item, config)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not _is_chosen(item, config)])
        items[:] = kept


def _is_chosen(item: pytest.Item, config: pytest.Config) -> bool:
    marker = item.get_closest_marker("heavy")
    if config.getoption(OPTION) and item.get_closest_marker("processes"):
        return False
    return (marker.args[0] if marker else None) == config.getoption(heavy.OPTION)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Give a folder for sockets: ``tmp_path`` is too long for them where TMPDIR is a long path itself."""
    folder = Path(tempfile.mkdtemp(prefix="smx-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_process_starts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts a process where the option allows none."""
    started = COUNTER.processes
    yield
    if request.config.getoption(OPTION) and COUNTER.processes > started:
        pytest.fail(f"The test starts a process, and {OPTION} allows none", pytrace=False)


_last_state: machine_state.State = {}


@pytest.fixture(autouse=True)
def machine_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that changes the machine, or beside which another worker's test did so."""
    before = _last_state or machine_state.read()
    yield
    after = machine_state.read()
    _last_state.clear()
    _last_state.update(after)
    if changes := machine_state.differences(before, after):
        message = f"{'; '.join(changes)}: by {request.node.nodeid}, or by a test that ran beside it"
        pytest.fail(message, pytrace=False)


@pytest.fixture
def punches(tmp_path: Path) -> None:
    """Leave a test out where the disk of ``tmp_path`` cannot give back the room of a part of a file."""
    with (tmp_path / "punched").open("wb") as file:
        file.write(b"x" * 2 * BLOCK)
        file.flush()
        if not punch(file.fileno(), 0, BLOCK):
            pytest.skip("this file system cannot leave out a part of a file")


@pytest.fixture
def deep_path(tmp_path: Path) -> Iterator[Path]:
    """Give the test's own folder and empty it again however deep it goes, which pytest itself cannot."""
    yield tmp_path
    for inside in tmp_path.iterdir():
        rmtree.remove_if_possible(str(inside))

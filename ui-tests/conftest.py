"""One server and one browser for all tests, an empty browser profile for each, and a look at what each left behind."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from gate import Gate
from lab import SHOWN, VIEWPORT, Lab
from labserver import THIS_INSTALLATION, Installation, LabServer
from playwright.sync_api import expect, sync_playwright
from plugins.second_chances import (
    pytest_handlecrashitem,
    pytest_runtest_protocol,
    pytest_sessionfinish,
    pytest_sessionstart,
)
from profiles import clear_profile
from sharedpage import SharedPage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from playwright.sync_api import Browser, BrowserContext

__all__ = ["pytest_handlecrashitem", "pytest_runtest_protocol", "pytest_sessionfinish", "pytest_sessionstart"]

OPTION = "--lab-python"
FAILED = pytest.StashKey[bool]()
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
pytest_plugins = ("plugins.temporary_files",)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses another JupyterLab."""
    parser.addoption(
        OPTION, metavar="PYTHON", help="run the JupyterLab and the jupyter_smx that are installed for this Python"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record for the teardown whether the test failed; with --reruns the session counts failures after the teardown."""
    report = yield
    if report.when != "teardown":
        item.stash[FAILED] = report.failed
    return report


def browser_path() -> str:
    """Find a Chromium; without one the tests are skipped, and fail where they must not be."""
    chosen = os.environ.get("CHROMIUM_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if chosen:
        return chosen
    sentence = (
        "There is no Chromium. Install it (Debian: apt-get install chromium) or name one in CHROMIUM_PATH, "
        "then run make test-ui again."
    )
    if os.environ.get("CI") == "true":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Give the browser's own profile: only this one keeps scripts on the disk, and compiled, from page to page."""
    path = browser_path()
    # Playwright's own five seconds are short on a machine that does other things.
    expect.set_options(timeout=SHOWN)
    with sync_playwright() as playwright:
        profile = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=path,
            args=ARGUMENTS,
            viewport=VIEWPORT,
        )
        yield profile
        profile.close()


@pytest.fixture(scope="session")
def browser(profile: BrowserContext) -> Browser:
    assert profile.browser is not None
    return profile.browser


@pytest.fixture(scope="session")
def installation(pytestconfig: pytest.Config) -> Installation:
    """Give the JupyterLab that is tested: this checkout's environment, or the one that the option names."""
    python = pytestconfig.getoption(OPTION)
    return Installation(python, checkout=None) if python else THIS_INSTALLATION


@pytest.fixture(scope="session")
def running_server(
    browser: Browser, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    del browser  # without one nothing needs to start
    server = LabServer(tmp_path_factory.mktemp("lab"), installation=installation)
    try:
        server.wait_ready()
        yield server
        server.settle()
        server.end_controller()
    finally:
        server.end()


@pytest.fixture
def server(running_server: LabServer) -> Iterator[LabServer]:
    """Give the server; jobs, pools and kernels of a test end with it, and the records of its jobs go."""
    yield running_server
    running_server.settle()
    running_server.delete_jobs()


@pytest.fixture
def halved_server(
    browser: Browser, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    """Give a server whose administrator switched the server extension off."""
    del browser
    server = LabServer(tmp_path_factory.mktemp("half"), server_half=False, installation=installation)
    try:
        server.wait_ready()
        yield server
    finally:
        server.end()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


@pytest.fixture
def allowed() -> list[str]:
    """Take the parts of complaints that a test declares to expect."""
    return []


@pytest.fixture
def open_tab(profile: BrowserContext, allowed: list[str]) -> Iterator[Callable[[LabServer], Lab]]:
    """Give a function that opens tabs of one browser profile; whatever they complain about fails the test."""
    profile.set_default_timeout(30_000)
    tabs: list[Lab] = []

    def opened(server: LabServer) -> Lab:
        tab = Lab(profile.new_page(), server)
        tabs.append(tab)
        return tab

    yield opened
    clear_profile(profile, {tab.origin for tab in tabs})
    assert_quiet([line for tab in tabs for line in tab.complaints], allowed)


@pytest.fixture(scope="module")
def shared_page(profile: BrowserContext, running_server: LabServer) -> Iterator[SharedPage]:
    shared = SharedPage(profile, running_server)
    yield shared
    shared.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, server: LabServer, allowed: list[str]) -> Iterator[Lab]:
    """Give a tab of the test's own, or the one that tests of its file share, where the mark ``page`` says so."""
    mark = request.node.get_closest_marker("page")
    if mark is None or mark.args != ("shared",):
        yield request.getfixturevalue("open_tab")(server)
        return
    shared: SharedPage = request.getfixturevalue("shared_page")
    lab = shared.give()
    yield lab
    complaints = list(lab.complaints)
    try:
        if request.node.stash.get(FAILED, True):
            shared.close()
        else:
            shared.empty()
    except BaseException:
        shared.close()
        raise
    finally:
        assert_quiet(complaints, allowed)


def assert_quiet(complaints: list[str], allowed: list[str]) -> None:
    """Fail when a page complained about anything else than what a test expects."""
    assert [line for line in complaints if not any(part in line for part in allowed)] == []

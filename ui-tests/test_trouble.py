"""Trouble between page and server: each kind is said with its cure, nothing blocks, and what can mend itself does."""

from __future__ import annotations

import re
import shutil
import sqlite3
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from lab import KERNEL_LIMIT, WAKE, clock
from labserver import BASE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator

pytestmark = pytest.mark.timeout(300)  # servers are started again and again

CARD = "application/vnd.jupyter-smx.card+json"
NEWER = "9.9.9"
NOTICED = 40_000
"""Milliseconds until a page notices by itself that its server is gone, or back: at least two of its checks."""

OF_LOST_SERVERS = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "WebSocket", "Failed to fetch", "NetworkError")
"""What browsers and Lab say in the console while there is no server."""

LATE_CLOCK = """(shift => {
    const Real = Date;
    window.Date = class extends Real {
        constructor(...parts) { if (parts.length) { super(...parts); } else { super(Real.now() + shift); } }
        static now() { return Real.now() + shift; }
    };
})"""

FORBIDDING = """
from jupyter_server.auth import Authorizer

class Forbidding(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "jupyter_smx"
"""


@pytest.fixture
def mended(server: LabServer) -> Iterator[LabServer]:
    """Give the server; what a test does to it is undone, when its pages are closed if they are asked for later."""
    yield server
    server.restore()


def alert(lab: Lab) -> Locator:
    return lab.panel.region.get_by_role("alert")


def close_labs_own_dialog(lab: Lab) -> None:
    """Close what Lab itself says about its server, as often as it says it."""
    dialog = lab.page.get_by_role("dialog").filter(has_text="Server Connection Error")
    close = dialog.get_by_role("button", name="Close")
    lab.page.add_locator_handler(dialog, close.click)


def requests_of(lab: Lab) -> list[str]:
    """Collect from now on what the page asks the server half."""
    seen: list[str] = []
    lab.page.on("request", lambda request: seen.append(request.url) if "/jupyter-smx/" in request.url else None)
    return seen


def installed(folder: Path, version: str) -> dict[str, str]:
    """Let a server find another version of the package, as after an update."""
    info = next(Path(str(distribution("jupyter-smx").locate_file(""))).glob("jupyter_smx-*.dist-info"))
    copy = folder / f"jupyter_smx-{version}.dist-info"
    shutil.copytree(info, copy)
    metadata = copy / "METADATA"
    metadata.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", metadata.read_text()))
    return {"PYTHONPATH": str(folder)}


def test_a_server_half_of_another_version_is_named_with_both_versions_and_nothing_is_blocked(
    mended: LabServer, lab: Lab, tmp_path: Path, allowed: list[str]
) -> None:
    allowed.extend(OF_LOST_SERVERS)
    lab.open()
    close_labs_own_dialog(lab)
    lab.panel.show()
    notice = lab.panel.region.get_by_role("status").filter(has_text="This page has version")
    expect(lab.panel.region).to_contain_text("Running")
    expect(notice).to_have_count(0)
    mended.restart(environment=installed(tmp_path, NEWER))
    name = mended.submit("between", "print('done')")
    expect(notice).to_contain_text(f"the Jupyter server runs version {NEWER}.", timeout=NOTICED)
    expect(notice).to_contain_text("Reload the page.")
    expect(notice).to_contain_text(f"pip install jupyter-smx=={NEWER}")
    expect(lab.panel.finished(name)).to_contain_text("Completed", timeout=NOTICED)
    lab.photograph("trouble-version")


class InTheWay:
    """A file where the data folder should be."""

    words = re.compile("could not be started, because .* cannot be used.*another folder")

    def __init__(self, server: LabServer) -> None:
        self._folder = server.folder / "smx"
        self._aside = server.folder / "smx-aside"

    def spoil(self) -> None:
        """Put it there."""
        self._folder.rename(self._aside)
        self._folder.write_text("not a folder")

    def mend(self) -> None:
        """Put the folder back."""
        self._folder.unlink()
        self._aside.rename(self._folder)


class NewerRecords:
    """Records that a newer version wrote."""

    words = re.compile("could not be started: .*written by a newer jupyter-smx.*Update jupyter-smx")

    def __init__(self, server: LabServer) -> None:
        self._records = server.folder / "smx" / "smx.sqlite"
        self._before = ""

    def spoil(self) -> None:
        """Give the records a version that no release has."""
        self._before = self._swap("9999")

    def mend(self) -> None:
        """Give the records their version back."""
        self._swap(self._before)

    def _swap(self, version: str) -> str:
        connection = sqlite3.connect(self._records)
        with connection:
            (before,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        connection.close()
        return str(before)


def write_card(server: LabServer, name: str, job: dict[str, object]) -> None:
    """Write a notebook with the card of a job, saved when the job was running."""
    card = {CARD: {"id": job["id"], "name": job["name"], "summary": job}, "text/plain": str(job["name"])}
    output = nbformat.v4.new_output("display_data", data=card)
    cell = nbformat.v4.new_code_cell("1", outputs=[output])
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), server.notebooks / name)


@pytest.mark.parametrize("trouble", [InTheWay, NewerRecords])
def test_a_controller_that_cannot_start_says_why_in_the_panel_and_the_card_and_starts_after_the_mend(
    trouble: type[InTheWay | NewerRecords], lab: Lab, server: LabServer, gate: Gate, allowed: list[str]
) -> None:
    allowed.append("jupyter-smx/controller")
    name = server.submit("before", gate.code)
    gate.wait_for_job()
    write_card(server, "before.ipynb", server.ask("GET", "jupyter-smx/jobs?limit=1")["jobs"][0])
    server.settle()
    server.end_controller()
    world = trouble(server)
    world.spoil()
    try:
        lab.open("before.ipynb")
        lab.panel.show()
        lab.panel.region.get_by_role("button", name="Show earlier jobs").click()
        expect(alert(lab)).to_contain_text(world.words, timeout=WAKE)
        expect(lab.card("before")).to_contain_text(world.words)
        expect(lab.panel.region).not_to_contain_text("No jobs are running")
        lab.photograph(f"trouble-{trouble.__name__.lower()}")
        alert(lab).get_by_role("button", name="Try again").click()
        expect(alert(lab)).to_contain_text(world.words, timeout=WAKE)
    finally:
        world.mend()
    alert(lab).get_by_role("button", name="Try again").click()
    expect(lab.panel.finished(name)).to_contain_text("Stopped", timeout=WAKE)
    expect(alert(lab)).to_have_count(0)
    expect(lab.card("before")).to_contain_text("Stopped")


def test_a_server_that_is_killed_and_comes_back_in_the_middle_of_a_job_costs_nothing_but_time(
    mended: LabServer, lab: Lab, gate: Gate, allowed: list[str]
) -> None:
    # After a kill and a restart the server has no kernels, and Lab requests the one that it had.
    allowed.extend([*OF_LOST_SERVERS, "/api/kernels/"])
    mended.write_notebook("kill.ipynb", "%load_ext jupyter_smx", f"%%train --name survivor\n{gate.code}")
    lab.open("kill.ipynb")
    close_labs_own_dialog(lab)
    lab.panel.show()
    lab.run_all()
    gate.wait_for_job()
    expect(lab.panel.running("survivor")).to_contain_text("Training", timeout=WAKE)
    mended.kill()
    expect(alert(lab)).to_contain_text("Cannot reach the Jupyter server.", timeout=NOTICED)
    expect(alert(lab)).to_contain_text(re.compile(r"Last updated \d"))
    expect(lab.panel.running("survivor")).to_contain_text("Training")
    expect(lab.card("survivor")).to_contain_text("server not reachable")
    lab.photograph("trouble-lost")
    mended.restart()
    expect(alert(lab)).to_have_count(0, timeout=NOTICED)
    expect(lab.panel.running("survivor")).to_contain_text("Training")
    expect(lab.card("survivor")).not_to_contain_text("server not reachable")
    gate.open()
    # Lab may still be reconnecting to the event bus; then the page's own check finds the change.
    expect(lab.toast("survivor")).to_contain_text("completed after", timeout=NOTICED)
    expect(lab.panel.finished("survivor")).to_contain_text("Completed")
    expect(lab.card("survivor")).to_contain_text("Completed")


def turn(lab: Lab, visibility: str) -> None:
    """Let the tab be hidden by another one, or shown again."""
    lab.page.evaluate(
        """visibility => {
            const look = { configurable: true, get: () => visibility };
            Object.defineProperty(document, 'visibilityState', look);
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => visibility === 'hidden' });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        visibility,
    )


def test_a_hidden_tab_asks_nobody_while_the_server_is_away_and_tells_everything_when_it_is_shown(
    mended: LabServer, lab: Lab, gate: Gate, allowed: list[str]
) -> None:
    allowed.extend(OF_LOST_SERVERS)
    lab.open()
    close_labs_own_dialog(lab)
    lab.panel.show()
    mended.submit("unseen", gate.code)
    gate.wait_for_job()
    expect(lab.panel.running("unseen")).to_contain_text("Training", timeout=WAKE)
    turn(lab, "hidden")
    mended.kill()
    asked = requests_of(lab)
    gate.open()
    mended.restart()
    assert asked == []
    turn(lab, "visible")
    expect(lab.panel.finished("unseen")).to_contain_text("Completed", timeout=WAKE)
    expect(lab.toast("unseen")).to_contain_text("completed after")
    expect(alert(lab)).to_have_count(0)


def test_who_is_logged_out_is_sent_to_the_login_page_and_goes_on_here_afterwards(
    mended: LabServer, lab: Lab, allowed: list[str]
) -> None:
    allowed.extend([*OF_LOST_SERVERS, "403", "401"])
    lab.open()
    close_labs_own_dialog(lab)
    lab.panel.show()
    # The cookie secret changes with the token, or old cookies would stay valid.
    (mended.folder / "runtime" / "jupyter_cookie_secret").unlink()
    mended.restart(token="another")  # noqa: S106 - of a server that lives for a test
    expect(alert(lab)).to_contain_text("You are logged out of this Jupyter server.", timeout=NOTICED)
    asked = requests_of(lab)
    lab.photograph("trouble-logged-out")
    link = alert(lab).get_by_role("link", name=re.compile("Log in"))
    expect(link).to_have_css("text-decoration-line", "underline")
    with lab.page.expect_popup() as opened:
        link.click()
    login = opened.value
    login.wait_for_load_state()
    assert login.url.startswith(f"{mended.origin}{BASE}login")
    login.locator("#password_input").fill("another")
    login.locator("#login_submit").click()
    login.wait_for_url(re.compile(f"{BASE}(lab|tree)"))
    login.close()
    assert len(asked) <= 1, "no page asks again and again whether somebody logged in"
    alert(lab).get_by_role("button", name="Try again").click()
    expect(alert(lab)).to_have_count(0)


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_browser_whose_clock_is_wrong_counts_by_the_servers(
    minutes: int, lab: Lab, server: LabServer, gate: Gate
) -> None:
    lab.page.add_init_script(f"{LATE_CLOCK}({minutes * 60_000})")
    lab.open()
    lab.panel.show()
    name = server.submit("punctual", "print('done')", keep_alive=600)
    expect(lab.panel.countdown).to_contain_text(re.compile("^09:"), timeout=WAKE)
    expect(lab.toast(name)).to_contain_text("completed after")
    server.submit("at-work", gate.code)
    gate.wait_for_job()
    expect(clock(lab.panel.running("at-work"))).to_have_text(re.compile("^00:"), timeout=WAKE)


def test_a_proxys_page_instead_of_an_answer_is_said_with_its_number_and_waited_out(
    lab: Lab, server: LabServer, allowed: list[str]
) -> None:
    allowed.append("502")
    lab.open()
    lab.panel.show()
    expect(lab.panel.region).to_contain_text(
        "No jobs are running" if server.is_running() else "It starts with your next"
    )
    page = "<html><body><h1>502 Bad Gateway</h1></body></html>"
    lab.page.route("**/jupyter-smx/**", lambda route: route.fulfill(status=502, content_type="text/html", body=page))
    lab.panel.region.get_by_role("button", name="Refresh jobs and pools").click()
    expect(alert(lab)).to_contain_text("The server returned status 502")
    expect(alert(lab)).to_contain_text("retries automatically")
    lab.photograph("trouble-proxy")
    lab.page.unroute("**/jupyter-smx/**")
    expect(alert(lab)).to_have_count(0, timeout=NOTICED)


def test_who_has_no_right_is_told_which_right_and_nothing_is_claimed_of_jobs(
    mended: LabServer, lab: Lab, tmp_path: Path, allowed: list[str]
) -> None:
    allowed.append("jupyter-smx/controller")
    (tmp_path / "forbidding.py").write_text(FORBIDDING)
    config = {"authorizer_class": "forbidding.Forbidding"}
    mended.restart(config=config, environment={"PYTHONPATH": str(tmp_path)})
    lab.open()
    lab.panel.show()
    expect(alert(lab)).to_contain_text(
        "This Jupyter server does not allow you to see jobs and pools.", timeout=KERNEL_LIMIT
    )
    expect(alert(lab)).to_contain_text("Ask the administrator of this Jupyter server for the right")
    expect(lab.panel.region).not_to_contain_text("No jobs are running")
    lab.photograph("trouble-forbidden")

"""What a person is told of jobs and pools: on the page while it is seen, else on the desktop, and never twice."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ARGUMENTS, browser_path
from lab import SCREENSHOTS, WAKE
from playwright.sync_api import expect
from windows import connected, started

from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Browser, Route
    from windows import Windows

LINES = "window.lines.filter(line => line.readyState === WebSocket.OPEN).length"
QUIET = "lab/api/settings/@jupyterlab/apputils-extension:notification"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started([browser_path(), *ARGUMENTS], tmp_path_factory.mktemp("windows")) as address:
        yield address


@pytest.fixture
def windows(browser: Browser, server: LabServer, address: str) -> Iterator[Windows]:
    with connected(browser.browser_type, address, server) as windows:
        yield windows


@pytest.fixture
def quiet(server: LabServer) -> Iterator[None]:
    """Switch on JupyterLab's own "Do not disturb"."""
    before = server.ask("GET", QUIET)["raw"]
    server.ask("PUT", QUIET, {"raw": json.dumps({**json.loads(before), "doNotDisturbMode": True})})
    yield
    server.ask("PUT", QUIET, {"raw": before})


def notes(lab: Lab, count: int) -> list[dict[str, Any]]:
    """Wait until a tab has made so many notifications of the desktop, and give them."""
    lab.page.wait_for_function("count => window.notes.length >= count", arg=count, polling=100, timeout=WAKE)
    made = lab.page.evaluate("window.notes.map(({ title, body, tag }) => ({ title, body, tag }))")
    assert len(made) == count
    return made


def wait_for_end(server: LabServer, name: str, status: str) -> None:
    """Wait until the newest job of that base name has its verdict."""

    def ended() -> bool:
        jobs = server.ask("GET", "jupyter-smx/jobs?limit=20")["jobs"]
        return next(job["status"] for job in jobs if job["base_name"] == name) == status

    eventually_blocking(ended, f"{name} is {status}", within=WAKE / 1000)


def wait_until_known(lab: Lab) -> None:
    """Wait until a tab, which may be hidden, knows that no job runs any more."""
    lab.page.wait_for_function(
        "() => document.querySelector('.jp-smx-status-button')?.textContent.includes('0 running')",
        polling=100,
        timeout=WAKE,
    )


def run(windows: Windows, server: LabServer, gate: Gate, name: str) -> Lab:
    """Open a tab in which a job runs, whose end waits at the gate, and look away."""
    windows.allow()
    lab = windows.open()
    server.submit(name, gate.code)
    gate.wait_for_job()
    lab.panel.show()
    expect(lab.panel.running(name)).to_be_visible(timeout=WAKE)
    windows.hide(lab)
    return lab


def test_a_hidden_tab_tells_on_the_desktop_and_a_click_leads_to_the_job(
    windows: Windows, server: LabServer, gate: Gate
) -> None:
    lab = run(windows, server, gate, "unseen")
    gate.open()
    (note,) = notes(lab, 1)
    assert re.fullmatch(r"unseen-\S+ completed after \S+( m?s)?", note["title"])
    assert "gate" not in json.dumps(note)
    expect(lab.toast("unseen")).to_have_count(0)
    lab.page.evaluate("() => window.notes[0].note.onclick()")
    windows.show(lab)
    # Either the view of the job or, without one, the panel.
    expect(lab.page.get_by_role("main").or_(lab.panel.region).filter(has_text="unseen").first).to_be_visible()
    expect(lab.toast("unseen")).to_have_count(0)


def test_the_desktop_hears_in_time_although_the_connection_was_lost_while_the_tab_was_hidden(
    windows: Windows, server: LabServer, gate: Gate
) -> None:
    lab = run(windows, server, gate, "cut-off")
    # JupyterLab mends its own connection at most once in a hidden tab.
    for _ in range(3):
        lab.page.wait_for_function(f"{LINES} > 0", polling=100, timeout=WAKE)
        lab.page.evaluate("window.lines.forEach(line => line.close())")
    lab.page.wait_for_function(f"{LINES} > 0", polling=100, timeout=WAKE)
    assert lab.page.evaluate(LINES) == 1
    gate.open()
    assert notes(lab, 1)[0]["title"].startswith("cut-off")


def test_what_ended_while_the_connection_was_lost_is_told_when_it_is_back(
    windows: Windows, server: LabServer, gate: Gate
) -> None:
    lab = run(windows, server, gate, "gap")
    lab.page.wait_for_function(f"{LINES} > 1", polling=100, timeout=WAKE)
    lab.page.evaluate("""() => {
        window.refused = true;
        window.lines.forEach(line => line.close());
    }""")
    gate.open()
    wait_for_end(server, "gap", "Completed")
    assert lab.page.evaluate("window.notes.length") == 0
    lab.page.evaluate("window.refused = false")
    assert notes(lab, 1)[0]["title"].startswith("gap")


def test_several_tabs_tell_once(windows: Windows, server: LabServer, gate: Gate) -> None:
    first = run(windows, server, gate, "single")
    second = windows.open()
    windows.hide(second)
    gate.open()
    made = "() => window.notes.length"
    # Both have read that the job ended; the one that keeps watch tells.
    for lab in (first, second):
        wait_until_known(lab)
    first.page.wait_for_function(made, polling=100, timeout=WAKE)
    assert first.page.evaluate(made) + second.page.evaluate(made) == 1


def test_who_comes_back_reads_one_entry_once_in_whichever_tab(windows: Windows, server: LabServer, gate: Gate) -> None:
    lab = run(windows, server, gate, "away")
    other = windows.open()
    windows.hide(other)
    gate.open()
    server.submit("away-too", "print('done')")
    server.submit("away-broken", "print('so far')\n1 / 0\n")
    for name, status in (("away", "Completed"), ("away-too", "Completed"), ("away-broken", "Failed")):
        wait_for_end(server, name, status)
    windows.show(lab)
    expect(lab.toast("While you were away")).to_contain_text(
        "While you were away: 2 finished, 1 failed at line 2", timeout=WAKE
    )
    expect(lab.page.locator(".Toastify__toast")).to_have_count(1)
    lab.photograph("while-away")
    windows.show(other)
    other.panel.show()
    expect(other.panel.finished("away-broken")).to_be_visible(timeout=WAKE)
    expect(other.toast("While you were away")).to_have_count(0)


@pytest.mark.usefixtures("quiet")
def test_do_not_disturb_holds_for_the_desktop_too(windows: Windows, server: LabServer, gate: Gate) -> None:
    lab = run(windows, server, gate, "quiet")
    gate.open()
    wait_for_end(server, "quiet", "Completed")
    wait_until_known(lab)
    windows.show(lab)
    expect(lab.page.locator(".jp-Notification-Status")).to_contain_text("1")
    assert lab.page.evaluate("window.notes.length") == 0
    expect(lab.page.locator(".Toastify__toast")).to_have_count(0)


def test_the_permission_is_asked_from_a_click_with_the_reason(windows: Windows, server: LabServer) -> None:
    windows.allow()
    windows.unasked("granted")
    lab = windows.open()
    server.submit("offered", "print('done')")
    expect(lab.toast("offered")).to_be_visible(timeout=WAKE)
    # Not by `photograph`: that ends all animations, and with them a toast that goes by itself.
    lab.page.screenshot(path=SCREENSHOTS / "toast-with-offer.png")
    lab.toast("offered").get_by_role("button", name="Notify on desktop").click()
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("a notification appears when a job ends or a warm pool is about to expire")
    lab.photograph("permission-reason")
    assert lab.page.evaluate("window.asked") == 0
    dialog.get_by_role("button", name="Enable").click()
    expect(lab.toast("You will get a desktop notification")).to_be_visible()
    server.submit("next", "print('done')")
    expect(lab.toast("next")).to_be_visible(timeout=WAKE)
    expect(lab.toast("next").get_by_role("button", name="Notify on desktop")).to_have_count(0)


def test_who_is_refused_reads_how_to_change_it(windows: Windows) -> None:
    windows.unasked("denied")
    lab = windows.open()
    lab.command("Enable Desktop Notifications")
    dialog = lab.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Enable").click()
    expect(dialog).to_contain_text("set Notifications to Allow")
    lab.photograph("permission-refused")
    dialog.get_by_role("button", name="OK").click()
    expect(dialog).to_have_count(0)


def test_a_pool_asks_before_its_end_and_extending_in_one_tab_answers_in_all(
    lab: Lab, server: LabServer, open_tab: Any
) -> None:
    other = open_tab(server)
    for tab in (lab, other):
        tab.open()
        # With a route a page uses no HTTP cache, so it is loaded before.
        tab.page.route(re.compile("/jupyter-smx/(pools|changes)"), idle_for_long)
    server.submit("kept", "print('done')", keep_alive=600)
    lab.panel.show()
    expect(lab.panel.warm).to_contain_text("Available", timeout=WAKE)
    expect(lab.toast("Pool local")).to_have_count(0)
    pool = server.ask("GET", "jupyter-smx/pools")["pools"][0]["id"]
    server.ask("PATCH", f"jupyter-smx/pools/{pool}", {"keep_alive": 122})
    for tab in (lab, other):
        expect(tab.toast("Pool local")).to_contain_text(
            re.compile("expires in 2 min, at .* 1 job used it"), timeout=WAKE
        )
    lab.photograph("pool-question")
    lab.toast("Pool local").get_by_role("button", name="Extend").click()
    expect(lab.panel.countdown).to_contain_text(re.compile("^1[67]:"))
    for tab in (lab, other):
        expect(tab.toast("Pool local")).to_have_count(0)


def idle_for_long(route: Route) -> None:
    """Let pools have been idle for ten minutes already, so that a test need not wait for that."""
    if route.request.method != "GET":
        route.continue_()
        return
    answer = route.fetch()
    body = answer.json()
    pools = [*body.get("pools", []), *(event["pool"] for event in body.get("events", []) if event["pool"])]
    for pool in pools:
        if pool["idle_since"]:
            pool["idle_since"] -= 600
    route.fulfill(response=answer, json=body)

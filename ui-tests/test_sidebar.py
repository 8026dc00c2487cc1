"""What a person sees and does in the panel, under cells and in notifications, with everything real underneath."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from lab import WAKE, clock
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator

pytestmark = pytest.mark.page("shared")

MOST_TABS = 6
"""Presses of the Tab key from the panel's tab to its first button that a person may be asked for."""


def wait_for_next_second(row: Locator) -> None:
    """Wait until the time that a row shows moves on by itself."""
    before = clock(row).inner_text()
    expect(clock(row)).not_to_have_text(before)


@pytest.mark.page("own")
@pytest.mark.core
def test_nothing_complains_and_nothing_starts_when_lab_opens_before_any_job(lab: Lab, server: LabServer) -> None:
    server.end_controller()
    lab.open()
    lab.panel.show()
    expect(lab.panel.region).to_contain_text("It starts with your next %%train or %%process cell.")
    assert not server.is_running()
    lab.panel.region.get_by_role("button", name="Show earlier jobs").click()
    expect(lab.panel.region).to_contain_text("0 running · 0 warm", timeout=WAKE)
    assert server.is_running()


@pytest.mark.core
def test_a_cells_job_is_seen_from_its_first_line_to_its_end(lab: Lab, server: LabServer, gate: Gate) -> None:
    server.write_notebook("whole.ipynb", "%load_ext jupyter_smx", f"%%train --name whole\n{gate.code}")
    lab.open("whole.ipynb")
    lab.panel.show()
    lab.run_all()
    gate.wait_for_job()
    expect(lab.panel.running("whole")).to_contain_text("Training", timeout=WAKE)
    expect(lab.card("whole")).to_contain_text("Training")
    expect(lab.card("whole").get_by_role("button", name="Stop whole")).to_be_enabled()
    wait_for_next_second(lab.card("whole"))
    wait_for_next_second(lab.panel.running("whole"))
    lab.photograph("running")
    gate.open()
    expect(lab.toast("whole")).to_contain_text("completed after")
    expect(lab.panel.finished("whole")).to_contain_text("Completed")
    expect(lab.panel.running("whole")).to_have_count(0)
    expect(lab.card("whole")).to_contain_text("Completed")
    expect(lab.card("whole").get_by_role("button", name="Stop whole")).to_have_count(0)
    lab.photograph("finished")


@pytest.mark.core
def test_the_toast_of_a_job_that_failed_leads_to_the_job_and_the_panel_says_the_line(
    lab: Lab, server: LabServer
) -> None:
    lab.open()
    server.submit("broken", "print('so far')\n1 / 0\n")
    expect(lab.toast("broken")).to_contain_text("ZeroDivisionError", timeout=WAKE)
    lab.toast("broken").get_by_role("button", name="Open job").click()
    expect(lab.page.get_by_role("tab", name=re.compile("^broken"))).to_be_visible()
    lab.panel.show()
    expect(lab.panel.finished("broken")).to_contain_text("Failed: ZeroDivisionError, line 2")


@pytest.mark.core
def test_a_pool_counts_down_stays_longer_when_asked_and_goes_when_released(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    server.submit("warm", "print('done')", keep_alive=600)
    expect(lab.panel.warm).to_contain_text(re.compile("Available, last job warm.* · 1 job"), timeout=WAKE)
    expect(lab.panel.countdown).to_contain_text(re.compile("^09:"))
    wait_for_next_second(lab.panel.warm)
    lab.panel.longer.click()
    expect(lab.panel.countdown).to_contain_text(re.compile("^24:"))
    wait_for_next_second(lab.panel.warm)
    lab.photograph("pool")
    lab.panel.release.click()
    expect(lab.panel.warm).to_have_count(0)
    expect(lab.panel.region).to_contain_text("No warm pools.")


@pytest.mark.core
def test_a_job_is_stopped_from_the_panel_after_a_question(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("halt", gate.code)
    gate.wait_for_job()
    lab.panel.stop("halt").click(timeout=WAKE)
    lab.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(lab.panel.running("halt")).to_contain_text("Training")
    lab.panel.stop("halt").click()
    lab.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    expect(lab.panel.finished("halt")).to_contain_text("Stopped", timeout=WAKE)
    expect(lab.toast("halt")).to_contain_text("was stopped after")


def test_a_job_is_stopped_without_a_mouse(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    server.submit("keys", gate.code)
    gate.wait_for_job()
    lab.command("Show Jobs and Pools")
    stop = lab.panel.stop("keys")
    expect(stop).to_be_visible(timeout=WAKE)
    # From the panel's own tab, which Lab lets be reached with Tab and arrows, as all of its tabs.
    lab.panel.tab.focus()
    for _ in range(MOST_TABS):
        lab.page.keyboard.press("Tab")
        if stop.evaluate("button => button === document.activeElement"):
            break
    expect(stop).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(lab.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True)).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(lab.panel.finished("keys")).to_contain_text("Stopped", timeout=WAKE)


def test_two_tabs_see_the_same_and_what_is_done_in_one_shows_in_the_other(
    lab: Lab, server: LabServer, gate: Gate, open_tab: Callable[[LabServer], Lab]
) -> None:
    other = open_tab(server)
    for tab in (lab, other):
        tab.open()
        tab.panel.show()
    server.submit("shared", gate.code, keep_alive=600)
    gate.wait_for_job()
    for tab in (lab, other):
        expect(tab.panel.running("shared")).to_contain_text("Training", timeout=WAKE)
    gate.open()
    for tab in (lab, other):
        expect(tab.panel.finished("shared")).to_contain_text("Completed")
        expect(tab.panel.warm).to_contain_text("Available")
    lab.panel.release.click()
    for tab in (lab, other):
        expect(tab.panel.warm).to_have_count(0)


@pytest.mark.page("own")
@pytest.mark.core
def test_a_page_that_is_loaded_again_shows_the_job_and_goes_on_with_it(lab: Lab, server: LabServer, gate: Gate) -> None:
    server.write_notebook("again.ipynb", "%load_ext jupyter_smx", f"%%train --name again\n{gate.code}")
    lab.open("again.ipynb")
    lab.run_all()
    gate.wait_for_job()
    expect(lab.card("again")).to_contain_text("Training", timeout=WAKE)
    lab.save()
    lab.reload("again.ipynb")
    lab.panel.show()
    expect(lab.panel.running("again")).to_contain_text("Training")
    expect(lab.card("again").get_by_role("button", name="Stop again")).to_be_enabled()
    wait_for_next_second(lab.card("again"))
    gate.open()
    expect(lab.panel.finished("again")).to_contain_text("Completed")
    expect(lab.card("again")).to_contain_text("Completed")


def test_without_the_server_half_the_panel_says_what_to_do(
    halved_server: LabServer, open_tab: Callable[[LabServer], Lab], allowed: list[str]
) -> None:
    allowed.append("jupyter-smx/controller")
    lab = open_tab(halved_server)
    lab.open()
    lab.panel.show()
    notice = lab.panel.region.get_by_role("alert")
    expect(notice).to_contain_text("The jupyter_smx server extension is not enabled on this Jupyter server.")
    expect(notice).to_contain_text("pip install jupyter-smx")
    expect(notice).to_contain_text("jupyter server extension list")
    expect(notice.get_by_role("button", name="Check again")).to_be_enabled()
    expect(lab.panel.region).not_to_contain_text("No jobs are running")
    lab.photograph("missing")

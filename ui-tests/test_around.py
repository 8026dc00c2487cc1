"""What there is of jobs and pools outside the panel: status bar, launcher, the panel of what runs, the palette."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from lab import WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer

pytestmark = pytest.mark.page("shared")


@pytest.mark.core
def test_the_status_bar_counts_and_leads_to_the_panel(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    server.submit("counted", gate.code)
    gate.wait_for_job()
    item = lab.page.get_by_role("button", name=re.compile("^Jobs and pools: 1 running"))
    expect(item).to_be_visible(timeout=WAKE)
    item.click()
    expect(lab.panel.running("counted")).to_be_visible()
    lab.photograph("status-bar")


@pytest.mark.core
def test_a_job_stands_among_what_runs_and_is_stopped_there_after_a_question(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    lab.open()
    server.submit("among", gate.code)
    gate.wait_for_job()
    lab.page.get_by_role("tab", name="Running Terminals and Kernels").click()
    row = lab.page.locator(".jp-RunningSessions-item").filter(has_text="among")
    expect(row).to_be_visible(timeout=WAKE)
    lab.photograph("running-panel")
    row.hover()
    row.get_by_title("Stop").click()
    lab.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    expect(row).to_have_count(0, timeout=WAKE)


@pytest.mark.core
def test_the_launcher_and_the_palette_lead_to_jobs_and_pools(lab: Lab, server: LabServer) -> None:
    lab.open()
    server.submit("kept", "print('done')", keep_alive=600)
    lab.page.locator(".jp-LauncherCard").filter(has_text="Show Jobs and Pools").click()
    expect(lab.panel.countdown).to_contain_text(re.compile("^09:"), timeout=WAKE)
    lab.command("Extend Pool by 15 Minutes")
    expect(lab.panel.countdown).to_contain_text(re.compile("^24:"))
    lab.command("Release Pool")
    expect(lab.panel.warm).to_have_count(0)


@pytest.mark.core
def test_a_row_opens_the_log_of_its_job_which_grows_while_the_job_runs(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("spoken", gate.code)
    gate.wait_for_job()
    lab.panel.running("spoken").focus(timeout=WAKE)
    lab.page.keyboard.press("Enter")
    log = lab.page.get_by_role("log", name=re.compile("^Log of spoken"))
    expect(log.locator("pre")).to_have_text(["at the gate"], timeout=WAKE)
    gate.open()
    expect(log.locator("pre")).to_have_text(["at the gate", "through"], timeout=WAKE)
    expect(lab.page.get_by_text("The job has ended.")).to_be_visible(timeout=WAKE)
    lab.photograph("log")

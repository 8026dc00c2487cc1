"""What is done in the panel with more than one job: arrays, a job that runs again, a job that is deleted elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from lab import WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator

pytestmark = pytest.mark.page("shared")

SWEEP = "%%train --name sweep --sweep --hp lr=[0.1,0.2,0.3]\n"


def array_row(lab: Lab) -> Locator:
    return lab.panel.region.locator("[data-array]").filter(has_text="sweep")


def tasks(lab: Lab) -> Locator:
    return lab.panel.region.locator("[data-task]")


def test_an_array_is_one_row_that_unfolds_and_stops_one_task_or_all(lab: Lab, server: LabServer, gate: Gate) -> None:
    server.write_notebook("sweep.ipynb", "%load_ext jupyter_smx", SWEEP + gate.code)
    lab.open("sweep.ipynb")
    lab.panel.show()
    lab.run_all()
    gate.wait_for_job()
    row = array_row(lab)
    expect(row).to_contain_text("of 3 tasks", timeout=WAKE)
    lab.photograph("array-folded")
    row.get_by_role("button", name=re.compile("^Tasks of sweep")).click()
    expect(tasks(lab)).to_have_count(3)
    expect(tasks(lab).first).to_contain_text("lr=0.1")
    lab.photograph("array-open")
    tasks(lab).first.get_by_role("button", name=re.compile("^Stop sweep")).click()
    lab.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    expect(row).to_contain_text("1 stopped of 3 tasks", timeout=WAKE)
    expect(tasks(lab).first).to_contain_text("Stopped")
    row.get_by_role("button", name=re.compile("^Stop all tasks of sweep")).click()
    lab.page.get_by_role("dialog").get_by_role("button", name="Stop All").click()
    over = lab.panel.region.get_by_role("list", name="Finished jobs").locator("[data-array]")
    expect(over).to_contain_text("3 stopped of 3 tasks", timeout=WAKE)
    expect(lab.panel.region.get_by_role("list", name="Running jobs")).to_have_count(0)


def test_a_finished_job_runs_again_from_its_row_and_from_the_palette(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    server.submit("once", "print('done')", keep_alive=600)
    row = lab.panel.finished("once")
    expect(row).to_contain_text("Completed", timeout=WAKE)
    row.hover()
    row.get_by_role("button", name=re.compile("^Rerun once.*$")).click()
    expect(lab.toast("rerun as once")).to_be_visible()
    expect(lab.panel.finished("once")).to_have_count(2, timeout=WAKE)
    lab.photograph("again")
    lab.command("Rerun Job")
    lab.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    expect(lab.panel.finished("once")).to_have_count(3, timeout=WAKE)


def test_a_job_that_is_deleted_in_one_tab_goes_in_the_other(
    lab: Lab, server: LabServer, open_tab: Callable[[LabServer], Lab]
) -> None:
    other = open_tab(server)
    for tab in (lab, other):
        tab.open()
        tab.panel.show()
    server.submit("gone", "print('done')")
    for tab in (lab, other):
        expect(tab.panel.finished("gone")).to_contain_text("Completed", timeout=WAKE)
    lab.panel.finished("gone").focus()
    lab.page.keyboard.press("Delete")
    lab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    for tab in (lab, other):
        expect(tab.panel.finished("gone")).to_have_count(0)

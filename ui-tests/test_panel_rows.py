"""The panel as a place to work in: finding, deleting, going through rows, by pointer and by keys, in light and dark."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from lab import THEMES, WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Route, WebSocketRoute

pytestmark = pytest.mark.page("shared")

MACHINE = "gpu-box-with-a-very-long-name.lab.example.org"
UNREACHABLE = (
    f"Its hosts are not reachable since 14:05: {MACHINE} does not answer. Check that it runs, and the network."
)
CUT = """region => [...region.querySelectorAll('.jp-smx-row *')]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)
    .filter(one => !one.closest('[title], .jp-smx-spoken'))
    .map(one => one.textContent)"""
"""Texts of rows that are wider than their place and have no tooltip."""


def test_the_filter_hides_what_does_not_match_in_all_sections(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("alpha", "print('done')", keep_alive=600)
    expect(lab.panel.finished("alpha")).to_contain_text("Completed", timeout=WAKE)
    server.submit("beta", gate.code)
    gate.wait_for_job()
    expect(lab.panel.running("beta")).to_be_visible(timeout=WAKE)
    lab.panel.filter.press_sequentially("ALPHA")
    expect(lab.panel.running("beta")).to_have_count(0)
    expect(lab.panel.finished("alpha")).to_have_count(1)
    lab.panel.filter.fill("")
    expect(lab.panel.running("beta")).to_have_count(1)
    lab.photograph("panel-light")
    lab.theme("JupyterLab Dark")
    lab.photograph("panel-dark")


def test_rows_are_gone_through_and_deleted_with_keys_alone(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    for name in ("kin-eldest", "kin-elder", "kin-younger"):
        server.submit(name, "print('done')")
        expect(lab.panel.finished(name)).to_contain_text("Completed", timeout=WAKE)
    lab.panel.filter.fill("kin-")
    lab.panel.finished("kin-younger").focus()
    lab.page.keyboard.press("ArrowDown")
    # The row that comes in the place of one that went away is next, and behind the last one the one before it.
    for gone, following in (("kin-elder", "kin-eldest"), ("kin-eldest", "kin-younger")):
        expect(lab.panel.finished(gone)).to_be_focused()
        lab.page.keyboard.press("Delete")
        expect(lab.page.get_by_role("dialog")).to_contain_text("Delete this job?")
        lab.page.keyboard.press("Enter")
        expect(lab.panel.finished(gone)).to_have_count(0)
        expect(lab.panel.finished(following)).to_be_focused()


def test_clearing_asks_with_a_number_and_leaves_what_the_filter_hides(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    for name in ("clear-me", "spare-me"):
        server.submit(name, "print('done')")
        expect(lab.panel.finished(name)).to_contain_text("Completed", timeout=WAKE)
    lab.panel.filter.fill("clear-me")
    lab.panel.region.get_by_role("button", name="Clear", exact=True).click()
    expect(lab.page.get_by_role("dialog")).to_contain_text("Delete 1 finished job?")
    lab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(lab.panel.region).to_contain_text("No items match the filter.")
    lab.panel.filter.fill("")
    expect(lab.panel.finished("spare-me")).to_have_count(1)
    expect(lab.panel.finished("clear-me")).to_have_count(0)


def test_a_row_has_a_menu_for_the_pointer_and_for_the_menu_key(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("over", "print('done')")
    expect(lab.panel.finished("over")).to_have_count(1, timeout=WAKE)
    server.submit("goes-on", gate.code)
    gate.wait_for_job()
    lab.panel.running("goes-on").click(button="right")
    menu = lab.page.get_by_role("menu").filter(has_text="Stop Job")
    expect(menu.get_by_role("menuitem", name="Delete Job")).to_have_count(0)
    lab.photograph("row-menu")
    menu.get_by_role("menuitem", name="Open Log of Job").click()
    expect(lab.page.get_by_role("log").filter(has_text="at the gate")).to_be_visible(timeout=WAKE)
    gate.open()
    expect(lab.panel.finished("goes-on")).to_have_count(1)
    lab.panel.finished("over").focus()
    lab.page.keyboard.press("ContextMenu")
    lab.page.get_by_role("menuitem", name="Rerun Job").press("Enter")
    expect(lab.panel.finished("over")).to_have_count(2, timeout=WAKE)


def test_a_spot_job_is_interrupted_from_its_row_and_begins_again(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("patient", gate.code, spot=True)
    gate.wait_for_job()
    # The job is there before the page has heard of it.
    expect(lab.panel.running("patient")).to_contain_text("Training", timeout=WAKE)
    lab.panel.running("patient").click(button="right")
    lab.page.get_by_role("menuitem", name="Interrupt Spot Job…").click()
    question = lab.page.get_by_role("dialog")
    expect(question).to_contain_text("restarts on other hosts")
    lab.photograph("interrupt")
    question.get_by_role("button", name="Interrupt", exact=True).click()
    gate.wait_for_job()
    gate.open()
    expect(lab.panel.finished("patient")).to_contain_text("Completed", timeout=WAKE)
    lab.panel.finished("patient").dblclick()
    lab.page.get_by_role("tab", name="Events", exact=True).click()
    events = lab.page.get_by_role("tabpanel", name="Events", exact=True)
    expect(events).to_contain_text("Its spot instances were reclaimed.", timeout=WAKE)


def _name_machine(text: str) -> str:
    """Say in an answer or an event that hosts of this machine are on another one, whose name is long."""
    text = re.sub(r'"engine": ?"local"', f'"engine":"ssh:{MACHINE}"', text)
    return re.sub(r'"unreachable": ?""', f'"unreachable":{json.dumps(UNREACHABLE)}', text)


def _answer_with_machine(route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, body=_name_machine(answer.text()))


def _tell_of_machine(socket: WebSocketRoute) -> None:
    socket.connect_to_server().on_message(lambda message: socket.send(_name_machine(str(message))))


@pytest.mark.page("own")
def test_long_names_of_machines_are_whole_in_a_narrow_panel(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.page.route(re.compile(r"/jupyter-smx/(jobs|pools|changes)(\?|$)"), _answer_with_machine)
    lab.page.route_web_socket(re.compile("/api/events/subscribe"), _tell_of_machine)
    server.submit("far-away", "print('done')", keep_alive=600)
    server.submit("fine-tune", gate.code, keep_alive=600)
    gate.wait_for_job()
    lab.open()
    lab.panel.show()
    lab.page.evaluate("window.jupyterapp.shell._hsplitPanel.setRelativeSizes([280, 1120])")
    expect(lab.panel.running("fine-tune")).to_contain_text(f"ssh:{MACHINE}", timeout=WAKE)
    expect(lab.panel.warm.first).to_contain_text(UNREACHABLE)
    lab.photograph("panel-narrow-machines")
    assert lab.panel.region.evaluate(CUT) == []


SAME = "gradient-boosting-on-the-whole-census-of-the-year-"
"""What the names of jobs that differ at their end begin with: with the end they have 60 characters."""
ENDS = """region => [...region.querySelectorAll('[data-job] .jp-smx-name')].map(name => {
    const [row, tail] = [name.closest('li'), name.querySelector('.jp-smx-name-tail')];
    const isInside = tail.getBoundingClientRect().right <= row.getBoundingClientRect().right + 1;
    return isInside && tail.scrollWidth <= tail.clientWidth + 1 ? tail.textContent : '';
})"""
"""The end of each name, if it is inside its row and whole."""


@pytest.mark.page("own")
def test_long_names_that_differ_at_their_end_are_told_apart_in_a_narrow_panel(lab: Lab, server: LabServer) -> None:
    lab.open()
    lab.panel.show()
    lab.page.evaluate("window.jupyterapp.shell._hsplitPanel.setRelativeSizes([280, 1120])")
    for number in range(4):
        server.submit(f"{SAME}{number:02d}", "print('done')", keep_alive=600)
    expect(lab.panel.finished(SAME)).to_have_count(4, timeout=WAKE)
    lab.panel.filter.fill(SAME)
    expect(lab.panel.region.locator("[data-job]")).to_have_count(4)
    ends = lab.panel.region.evaluate(ENDS)
    assert len(set(ends)) == 4
    assert "" not in ends
    row = lab.panel.finished(SAME).first
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 56, "a row has two lines"
    for width in (400, 280):
        lab.page.evaluate(f"window.jupyterapp.shell._hsplitPanel.setRelativeSizes([{width}, {1400 - width}])")
        lab.photograph_themes(f"panel-{width}-names")
        assert lab.panel.region.evaluate(CUT) == []
    lab.theme(THEMES[0])

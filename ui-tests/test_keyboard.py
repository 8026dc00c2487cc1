"""A whole round without a mouse: the panel, its rows, a job's view, questions, a pool, the filter, and back."""

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
    from playwright.sync_api import Locator

pytestmark = pytest.mark.timeout(300)  # a whole round on a machine that others use, too

MOST_KEYS = 40
"""Presses of Tab that a person may be asked for, from the top of the panel to its last row."""

RING = """() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) {
        at = at.shadowRoot.activeElement;  // Lab's own buttons draw theirs inside
    }
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at);
    const hasRing = (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
    return at !== document.body && at.matches(':focus-visible') && hasRing;
}"""


def go_to(lab: Lab, wanted: Locator) -> None:
    """Press Tab until something has the focus; whatever has it on the way is seen to have it."""
    expect(wanted).to_be_visible(timeout=WAKE)
    for _ in range(MOST_KEYS):
        lab.page.keyboard.press("Tab")
        assert lab.page.evaluate(RING), lab.page.evaluate("() => document.activeElement.outerHTML.slice(0, 300)")
        if wanted.evaluate("node => node === document.activeElement"):
            return
    expect(wanted).to_be_focused()


def test_a_whole_round_without_a_mouse(lab: Lab, server: LabServer, gate: Gate) -> None:
    keys = lab.page.keyboard
    server.write_notebook("round.ipynb", "1 + 1")
    lab.open("round.ipynb")
    server.submit("warm", "print('done')", keep_alive=600)
    lab.command("Show Jobs and Pools")
    expect(lab.panel.region).to_be_focused()
    expect(lab.panel.countdown).to_contain_text(re.compile("^09:"), timeout=WAKE)
    go_to(lab, lab.panel.longer)
    keys.press("Enter")
    expect(lab.panel.countdown).to_contain_text(re.compile("^24:"), timeout=WAKE)
    expect(lab.panel.longer).to_be_focused()

    job = server.submit("at-work", gate.code)
    gate.wait_for_job()
    lab.command("Show Jobs and Pools")
    go_to(lab, lab.panel.filter)
    keys.type(job)
    go_to(lab, lab.panel.running(job))
    keys.press("Enter")
    expect(lab.page.get_by_role("tab", name=re.compile(job)).first).to_be_visible(timeout=WAKE)
    lab.command("Show Jobs and Pools")
    go_to(lab, lab.panel.running(job))
    keys.press("Delete")
    expect(lab.page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True)).to_be_focused()
    keys.press("Enter")
    expect(lab.panel.running(job)).to_have_count(0, timeout=WAKE)
    expect(lab.panel.finished(job)).to_contain_text("Stopped")
    # The row takes the focus with it, and the panel gets it back.
    lab.page.wait_for_function("() => document.activeElement.closest('.jp-smx-panel') !== null")

    lab.command("Activate Previous Tab")
    lab.page.wait_for_function("() => document.activeElement.closest('.jp-Notebook') !== null")


def test_whoever_stands_on_a_row_that_goes_away_goes_on_in_the_list(lab: Lab, server: LabServer) -> None:
    lab.open()
    names = [server.submit(name, "print('done')") for name in ("first", "middle", "last")]
    lab.command("Show Jobs and Pools")
    for name in names:
        expect(lab.panel.finished(name)).to_contain_text("Completed", timeout=WAKE)
    rows = lab.panel.region.get_by_role("list", name="Finished jobs").get_by_role("listitem")
    # The job that ended last, which need not be the one that was submitted last.
    newest = rows.first.get_attribute("data-job")
    row = lab.panel.region.locator(f"[data-job='{newest}']")
    go_to(lab, rows.first)
    lab.page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    lab.page.keyboard.press("ArrowUp")
    expect(row).to_be_focused()
    # Another tab deletes it.
    server.ask("DELETE", f"jupyter-smx/jobs/{newest}")
    expect(row).to_have_count(0, timeout=WAKE)
    expect(rows.first).to_be_focused()

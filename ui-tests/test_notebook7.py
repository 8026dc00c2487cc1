"""Notebook 7, the other front end of this extension: it has one document to a page, no launcher and no status bar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from lab import KERNEL_LIMIT, WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from lab import Lab
    from labserver import LabServer

OWN_COMPLAINTS = (
    "reading 'schema'",
    "Command 'filebrowser:open-path' not registered",
    # 7.2.0: a notebook without a checkpoint, and the settings of documents.
    "reading 'last_modified'",
    "/static/notebook/8471.bundle.js",
)
"""What Notebook 7 says of itself, with and without this extension."""

CELL = """%%train --name plain --keep-alive 10m
print("in a page of its own")
"""


@pytest.mark.core
def test_a_cell_runs_as_a_job_with_its_card_the_panel_and_its_log(
    lab: Lab, server: LabServer, allowed: list[str]
) -> None:
    allowed += OWN_COMPLAINTS
    server.write_notebook("seven.ipynb", "%load_ext jupyter_smx", CELL)
    page = lab.page
    lab.visit("notebooks/seven.ipynb")
    expect(page.locator(".jp-Notebook")).to_be_visible(timeout=KERNEL_LIMIT)
    page.wait_for_function(
        "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
        timeout=KERNEL_LIMIT,
    )
    lab.run_all()
    expect(lab.card("plain")).to_contain_text("Completed", timeout=WAKE)
    lab.execute("jupyter-smx:open-panel")
    expect(lab.panel.countdown).to_contain_text(re.compile("^09:"), timeout=WAKE)
    lab.panel.finished("plain").first.focus()
    page.keyboard.press("Enter")
    log = page.get_by_role("log", name=re.compile("plain"))
    expect(log).to_contain_text("in a page of its own", timeout=WAKE)
    box = log.bounding_box()
    assert box is not None
    assert box["height"] > 100, "it can be read without pulling at a handle first"
    assert page.viewport_size is not None
    assert box["x"] + box["width"] <= page.viewport_size["width"], "nothing of it is cut off"
    # Enter once more shows it, and does not close it.
    lab.panel.finished("plain").first.focus()
    page.keyboard.press("Enter")
    expect(lab.panel.finished("plain").first).not_to_be_focused()
    expect(log).to_be_visible()
    lab.photograph("notebook7")


@pytest.mark.core
def test_the_list_of_files_opens_without_a_complaint(lab: Lab, allowed: list[str]) -> None:
    allowed += OWN_COMPLAINTS
    lab.visit("tree")
    expect(lab.page.locator(".jp-DirListing")).to_be_visible(timeout=KERNEL_LIMIT)
    lab.page.get_by_role("tab", name="Running").click()
    # The hidden palette has these words, too.
    running = lab.page.get_by_role("tabpanel", name="Running")
    expect(running.get_by_text("Jobs and Pools").first).to_be_visible(timeout=WAKE)

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

CELL = """%%train --name plain --keep-alive 10m
print("in a page of its own")
"""


@pytest.mark.core
def test_a_cell_runs_as_a_job_with_its_card_the_panel_and_its_log(
    lab: Lab, server: LabServer, allowed: list[str]
) -> None:
    # What Notebook 7 says of itself, with and without this extension.
    allowed += ["reading 'schema'", "Command 'filebrowser:open-path' not registered"]
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
    lab.photograph("notebook7")


@pytest.mark.core
def test_the_list_of_files_opens_without_a_complaint(lab: Lab, allowed: list[str]) -> None:
    allowed.append("reading 'schema'")
    lab.visit("tree")
    expect(lab.page.locator(".jp-DirListing")).to_be_visible(timeout=KERNEL_LIMIT)
    lab.page.get_by_role("tab", name="Running").click()
    expect(lab.page.get_by_text("Jobs and Pools", exact=False).first).to_be_visible(timeout=WAKE)

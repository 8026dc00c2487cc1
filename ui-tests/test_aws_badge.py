"""The item of the status bar while a front for clients of AWS runs: a user who forgets it trains here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lab import KERNEL_LIMIT, WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from lab import Lab
    from labserver import LabServer


def test_the_status_bar_shows_a_front_that_a_notebook_started_until_it_ends(lab: Lab, server: LabServer) -> None:
    stops = "%smx aws off\n!jupyter smx aws stop"
    server.write_notebook("clients.ipynb", "%load_ext jupyter_smx", "%smx aws on", stops)
    lab.open("clients.ipynb")
    item = lab.page.locator("#jp-main-statusbar .jp-smx-aws")
    expect(item).to_have_count(0)
    for _ in range(2):
        lab.execute("notebook:run-cell-and-select-next")
    started = lab.page.locator(".jp-OutputArea-output").filter(has_text="train on this machine")
    expect(started).to_be_visible(timeout=KERNEL_LIMIT)
    expect(item).to_be_visible(timeout=WAKE)
    expect(item).to_have_text("AWS → local")
    expect(item).to_have_attribute("title", re.compile(r"turned it on train here\. Back to AWS in a notebook: %smx"))
    lab.photograph("aws-front")
    lab.execute("notebook:run-cell-and-select-next")
    expect(item).to_be_hidden(timeout=WAKE)

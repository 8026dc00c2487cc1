"""Charts of a job as a person uses them: they grow, they are zoomed, they end with the job, they can be read aloud."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Locator

WAKE = 20_000
"""Milliseconds until a job in the panel follows one on a host, a cold start included."""

TRAINS = """
import os, time
for epoch in range(1, 6):
    until = time.process_time() + 0.5
    while time.process_time() < until: pass
    value = "nan" if epoch == 3 else f"{1 / epoch:.3f}"
    print(f"epoch {epoch}/5 loss={value} val_loss={2 / epoch:.3f} acc={1 - 1 / (1 + epoch):.3f}", flush=True)
"""


def charts(lab: Lab) -> Locator:
    """Find the charts that are open."""
    return lab.page.locator(".jp-smx-charts")


def test_charts_grow_while_the_job_runs_and_end_with_it(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.open()
    lab.panel.show()
    server.submit("drawn", TRAINS + gate.code)
    gate.wait_for_job()
    expect(lab.panel.running("drawn")).to_be_visible(timeout=WAKE)
    lab.command("Show Charts of Job")
    view = charts(lab)
    expect(view.get_by_role("status")).to_have_text("Follows the job.", timeout=WAKE)
    expect(view.get_by_role("img", name=re.compile("^Chart of CPU.* on average"))).to_be_visible()
    expect(view.get_by_role("img", name=re.compile("loss fell from 1 to 0.2"))).to_be_visible()
    lab.photograph("charts-light")
    gate.open()
    expect(view.get_by_role("status")).to_have_text("The job has ended.", timeout=WAKE)
    lab.photograph("charts-ended")

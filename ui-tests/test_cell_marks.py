"""The mark in the prompt area of a cell that handed jobs in: live, there after a reload, gone with the output."""

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


def mark_of(lab: Lab, number: int) -> Locator:
    """Find the mark in the prompt area of the n-th cell."""
    return lab.page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-Cell-inputArea .jp-smx-cell-mark")


@pytest.mark.core
def test_a_cell_shows_how_its_job_stands_through_a_reload_and_until_its_output_is_cleared(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    server.write_notebook("marked.ipynb", "%load_ext jupyter_smx", f"%%train --name marked\n{gate.code}")
    lab.open("marked.ipynb")
    mark = mark_of(lab, 1)
    expect(mark).to_have_count(0)
    lab.run_all()
    gate.wait_for_job()
    expect(mark).to_have_attribute("aria-label", re.compile("^Job marked-.*: Training, cold"), timeout=WAKE)
    expect(mark).to_have_text("○")
    lab.save()
    lab.reload("marked.ipynb")
    expect(mark).to_have_attribute("aria-label", re.compile("^Job marked-.*: Training, cold"), timeout=WAKE)
    lab.photograph("cell-mark")
    gate.open()
    expect(mark).to_have_attribute("aria-label", re.compile("^Job marked-[^;]*: Completed, cold"), timeout=WAKE)
    expect(mark).to_have_text("✓")
    expect(mark_of(lab, 0)).to_have_count(0)
    lab.execute("notebook:clear-all-cell-outputs")
    expect(lab.card("marked")).to_have_count(0)
    expect(mark).to_have_count(0)


def test_a_cell_with_several_jobs_says_first_which_runs_and_then_which_failed(
    lab: Lab, server: LabServer, gate: Gate
) -> None:
    sources = {"good": "print('done')", "bad": "{}['lost']", "slow": gate.code}
    handed_in = [f"smx.train({source!r}, name={name!r})" for name, source in sources.items()]
    server.write_notebook("several.ipynb", "import jupyter_smx as smx", "\n".join(handed_in))
    lab.open("several.ipynb")
    lab.run_all()
    gate.wait_for_job()
    mark = mark_of(lab, 1)
    failed = r"Job bad-\S+: Failed: KeyError, line 1, [^;]+"
    completed = r"Job (good|slow)-\S+: Completed, [^;]+"
    running = re.compile(rf"^Job slow-\S+: Training, [^;]+; {failed}; {completed}$")
    expect(mark).to_have_attribute("aria-label", running, timeout=WAKE)
    gate.open()
    over = re.compile(rf"^{failed}; {completed}; {completed}$")
    expect(mark).to_have_attribute("aria-label", over, timeout=WAKE)
    expect(mark).to_have_text("✗")
    lab.photograph("cell-mark-several")

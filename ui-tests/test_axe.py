"""What axe says of everything that we draw, in each theme of Lab and with the system's own colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab import WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer

AXE = Path(__file__).parent.parent / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ["JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"]
OURS = ["#jupyter-smx-panel", ".jp-smx-card", ".jp-smx-log", ".jp-smx-status"]
CELL = """%%train --keep-alive 10m --name seen
print("loss 0.5")
"""
BROKEN = """%%train --keep-alive 10m --name broken
raise ValueError("no")
"""

# Lab's toolbar buttons put aria-pressed on an element without a role; the button inside is right.
RUN = """async selectors => {
  const there = selectors.filter(each => document.querySelector(each));
  const found = await axe.run({include: there.map(each => [each])}, {resultTypes: ['violations']});
  return {
    there,
    found: found.violations.flatMap(each => each.nodes
      .filter(node => !(each.id === 'aria-allowed-attr' && node.html.startsWith('<jp-button')))
      .map(node => `${each.id}: ${node.html} ${node.failureSummary}`))
  };
}"""


@pytest.fixture
def full(lab: Lab, server: LabServer, gate: Gate) -> Lab:
    """Give a page that has everything: a job that runs, an idle pool, finished jobs, cards, a log, the status bar."""
    server.write_notebook("axe.ipynb", "%load_ext jupyter_smx", CELL, BROKEN)
    lab.open("axe.ipynb")
    lab.run_all()
    expect(lab.card("broken")).to_contain_text("Failed", timeout=WAKE)
    server.submit("goes-on", gate.code)
    gate.wait_for_job()
    lab.panel.show()
    expect(lab.panel.running("goes-on")).to_be_visible(timeout=WAKE)
    expect(lab.panel.finished("seen").first).to_be_visible()
    return lab


def test_axe_finds_nothing_in_any_theme(full: Lab) -> None:
    full.page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme in THEMES:
        full.theme(theme)
        seen = full.page.evaluate(RUN, OURS)
        assert {"#jupyter-smx-panel", ".jp-smx-card"} <= set(seen["there"])
        assert seen["found"] == [], theme
        full.photograph(f"axe-{theme.removeprefix('JupyterLab ').replace(' ', '-').lower()}")


def test_everything_can_be_read_in_the_systems_own_colours(full: Lab) -> None:
    full.theme(THEMES[0])
    full.page.emulate_media(forced_colors="active", reduced_motion="reduce")
    button = full.panel.region.get_by_role("button", name=re.compile("^Stop goes-on"))
    expect(button).to_be_visible()
    drawn = button.locator("[fill]").first.evaluate("each => getComputedStyle(each).fill")
    assert drawn == button.evaluate("each => getComputedStyle(each).color")
    moving = full.page.evaluate(
        "() => document.getAnimations().filter(each => each.effect.target.closest('[class*=jp-smx]')).length"
    )
    assert moving == 0
    full.photograph("forced-colors")

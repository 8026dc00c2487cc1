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
OURS = ["#jupyter-smx-panel", ".jp-smx-card", ".jp-smx-log", ".jp-smx-charts", ".jp-smx-status"]
CELL = """%%train --keep-alive 10m --name seen
print("loss 0.5")
"""
SAYS = 'print("loss 0.5", flush=True)\n'
BROKEN = """%%train --keep-alive 10m --name broken
raise ValueError("no")
"""

# Lab's toolbar buttons put aria-pressed on an element without a role; the button inside is right.
RUN = """async selectors => {
  const isSeen = each => each.checkVisibility({visibilityProperty: true});
  const there = selectors.filter(each => [...document.querySelectorAll(each)].some(isSeen));
  const found = await axe.run({include: there.map(each => [each])}, {resultTypes: ['violations']});
  return {
    there,
    found: found.violations.flatMap(each => each.nodes
      .filter(node => !(each.id === 'aria-allowed-attr' && node.html.startsWith('<jp-button')))
      .map(node => `${each.id}: ${node.html} ${node.failureSummary}`))
  };
}"""


OPEN = "([command, id]) => void window.jupyterapp.commands.execute(command, {id, name: 'goes-on'})"
TABS = "() => [...window.jupyterapp.shell.widgets('main')].map(each => each.id)"
SHOW = """async id => {
  window.jupyterapp.shell.activateById(id);
  await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}"""


@pytest.fixture
def full(lab: Lab, server: LabServer, gate: Gate) -> Lab:
    """Give a page that has everything: a job that runs, an idle pool, finished jobs, cards, a log, charts."""
    server.write_notebook("axe.ipynb", "%load_ext jupyter_smx", CELL, BROKEN)
    lab.open("axe.ipynb")
    lab.run_all()
    expect(lab.card("broken")).to_contain_text("Failed", timeout=WAKE)
    job = server.submit("goes-on", SAYS + gate.code)
    gate.wait_for_job()
    lab.panel.show()
    expect(lab.panel.running("goes-on")).to_be_visible(timeout=WAKE)
    expect(lab.panel.finished("seen").first).to_be_visible()
    lab.page.evaluate(OPEN, ["jupyter-smx:open-log", job])
    expect(lab.page.locator(".jp-smx-log-row").first).to_have_text("loss 0.5", timeout=WAKE)
    lab.page.evaluate(OPEN, ["jupyter-smx:open-charts", job])
    expect(lab.page.locator(".jp-smx-charts canvas").first).to_be_visible(timeout=WAKE)
    return lab


def looked_at(full: Lab) -> tuple[set[str], list[str]]:
    """Give what of us is seen in one tab after the other, and what axe finds there."""
    seen, found = set(), []
    for tab in full.page.evaluate(TABS):
        full.page.evaluate(SHOW, tab)
        told = full.page.evaluate(RUN, OURS)
        seen |= set(told["there"])
        found += told["found"]
    return seen, found


def test_axe_finds_nothing_in_any_theme(full: Lab) -> None:
    full.page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme in THEMES:
        full.theme(theme)
        seen, found = looked_at(full)
        assert seen == set(OURS)
        assert found == [], theme
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

"""What axe says of everything that we draw, in each theme of Lab and with the system's own colours."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lab import THEMES, WAKE
from playwright.sync_api import expect

if TYPE_CHECKING:
    from gate import Gate
    from lab import Lab
    from labserver import LabServer
    from playwright.sync_api import Route

pytestmark = pytest.mark.page("shared")

AXE = Path(__file__).parent.parent / "node_modules" / "axe-core" / "axe.min.js"
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


MISTAKE = """%%train --keep-alive 10m --name mistake
print(missing)
"""
SWEEP = """%%train --keep-alive 10m --name sweep --sweep --hp lr=[1,0,2]
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=int)
print(1 / parser.parse_args().lr)
"""
PANEL = "#jupyter-smx-panel"


def assert_clean(lab: Lab, name: str, *selectors: str) -> None:
    """Let axe look at parts of the page in each theme, and take a picture of each."""
    lab.page.evaluate(AXE.read_text(encoding="utf-8"))
    for theme in THEMES:
        lab.theme(theme)
        told = lab.page.evaluate(RUN, list(selectors))
        assert told["there"] == list(selectors)
        assert told["found"] == [], theme
        lab.photograph(f"{name}-{theme.removeprefix('JupyterLab ').replace(' ', '-').lower()}")


def test_axe_finds_nothing_on_a_failed_card_that_opened_by_itself(lab: Lab, server: LabServer) -> None:
    server.write_notebook("mistake.ipynb", "%load_ext jupyter_smx", MISTAKE)
    lab.open("mistake.ipynb")
    lab.run_all()
    reason = lab.card("mistake").get_by_label("Reason of the failure")
    expect(reason).to_be_visible(timeout=WAKE)
    assert_clean(lab, "failed-card", ".jp-smx-card")


def test_axe_finds_nothing_on_the_unfolded_card_of_an_array(lab: Lab, server: LabServer) -> None:
    server.write_notebook("array.ipynb", "%load_ext jupyter_smx", SWEEP)
    lab.open("array.ipynb")
    lab.panel.show()
    lab.run_all()
    card = lab.page.locator(".jp-smx-card").filter(has_text="sweep")
    expect(card).to_contain_text("2 of 3 done, 1 failed", timeout=WAKE)
    card.get_by_role("button", name=re.compile("^Tasks of sweep")).click()
    expect(card.get_by_role("list", name=re.compile("^Tasks of sweep")).get_by_role("listitem")).to_have_count(3)
    assert_clean(lab, "array-card", ".jp-smx-card", PANEL)


@pytest.mark.page("own")
def test_axe_finds_nothing_on_the_welcome(lab: Lab) -> None:
    lab.page.route(re.compile(r"/jupyter-smx/(jobs|arrays|pools)(\?|$)"), _answer_with_nothing)
    lab.open()
    lab.panel.show()
    expect(lab.panel.region.get_by_role("region", name="A cell to run")).to_be_visible()
    assert_clean(lab, "welcome", PANEL)


@pytest.mark.page("own")
def test_axe_finds_nothing_on_hosts_of_other_machines(lab: Lab, server: LabServer, gate: Gate) -> None:
    lab.page.route(re.compile(r"/jupyter-smx/(pools|changes)(\?|$)"), _answer_from_elsewhere)
    server.submit("elsewhere", "print('done')", keep_alive=600)
    server.submit("allocated", gate.code, keep_alive=600)
    gate.wait_for_job()
    lab.open()
    lab.panel.show()
    expect(lab.panel.running("allocated")).to_contain_text("allocation ends in", timeout=WAKE)
    expect(lab.panel.warm.first).to_contain_text("slurm (node-7)")
    expect(lab.panel.region.locator(".jp-smx-counts")).to_contain_text("not reachable")
    assert_clean(lab, "remote-pool", PANEL)


def _answer_with_nothing(route: Route) -> None:
    name = re.search("jobs|arrays|pools", route.request.url.partition("/jupyter-smx/")[2])
    assert name is not None
    route.fulfill(json={name[0]: []})


def _answer_from_elsewhere(route: Route) -> None:
    """Say of the hosts of this machine that they are in an allocation of a scheduler, and do not answer."""
    answer = route.fetch()
    body = answer.json()
    pools = [*body.get("pools", ()), *(event["pool"] for event in body.get("events", ()) if event["pool"])]
    for pool in pools:
        pool |= {
            "engine": "slurm",
            "machines": ["node-7"],
            "allocation_ends_at": time.time() + 1_500,
            "unreachable": "Its hosts are not reachable since 14:05: node-7 did not answer within 10 s.",
        }
    route.fulfill(response=answer, body=json.dumps(body))

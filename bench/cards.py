"""Cards in a real browser: the first one of a kernel without a controller, and live ones after a reload.

    python -m bench cards [--rounds 3] [--other CHECKOUT]

With another checkout, rounds alternate between the two. Its labextension must be built.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.place import percentile, print_machine
from jupyter_smx.testing.eventually import eventually_blocking

ROOT = Path(__file__).parent.parent
# The server and the page of the browser tests, and the plugins of both kinds of tests.
sys.path[:0] = [str(ROOT / "ui-tests"), str(ROOT / "tests")]

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from lab import Lab
    from labserver import Installation, LabServer
    from playwright.sync_api import Browser

LIVE_CARDS = 3
"""Jobs whose cards a reloaded notebook has."""
FIRST_GOAL, RELOAD_GOAL = 300, 2_000
"""Milliseconds."""

LOADED = "%load_ext jupyter_smx"

WATCH_FIRST = """() => {
  window.pressedAt = null;
  window.cardAt = null;
  document.addEventListener('keydown', event => {
    if (event.key === 'Enter' && event.shiftKey && window.pressedAt === null) {
      window.pressedAt = performance.now();
      const look = now => {
        const card = document.querySelector('.jp-Cell-outputArea .jp-smx-card');
        if (card && card.textContent.trim()) {
          requestAnimationFrame(painted => { window.cardAt = painted; });
        } else {
          requestAnimationFrame(look);
        }
      };
      requestAnimationFrame(look);
    }
  }, { capture: true });
}"""
"""Notes when Shift+Enter is pressed and when the first card is painted."""

WATCH_RELOAD = """
(() => {
  window.notebookAt = null;
  window.liveAt = null;
  const wanted = %d;
  const look = now => {
    const inputs = [...document.querySelectorAll('.jp-NotebookPanel .jp-CodeCell .jp-InputArea')];
    if (window.notebookAt === null && inputs.some(input => input.textContent.includes('load_ext'))) {
      window.notebookAt = now;
    }
    const stops = document.querySelectorAll('.jp-smx-card button[aria-label^="Stop "]:not(:disabled)');
    if (stops.length >= wanted) {
      window.liveAt = now;
    } else {
      requestAnimationFrame(look);
    }
  };
  requestAnimationFrame(look);
})();
"""
"""Notes in every page when a notebook has its saved first cell, and when so many cards can stop their job.

Before the server answers with its content, Lab shows a notebook with one empty cell.
"""

ABSENT = "() => document.querySelectorAll('.jp-Cell-outputArea .jp-smx-card').length === 0"


def run(options: argparse.Namespace) -> None:
    """Print both figures of this checkout, and of the other one if there is one."""
    from conftest import ARGUMENTS, browser_path  # noqa: PLC0415 - of the browser tests
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only wanted here

    sides = installations(options.other)
    print_machine((*([Path(options.other)] if options.other else []), ROOT))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        print_cards(measure(browser, sides, options.rounds))
        browser.close()


def installations(other: str) -> dict[str, Installation]:
    """Return what is measured, by name: the other checkout, if one is named, and this one."""
    from labserver import THIS_INSTALLATION, Installation  # noqa: PLC0415 - of the browser tests

    before = {"other": Installation(checkout=Path(other).resolve())} if other else {}
    return {**before, "this": THIS_INSTALLATION}


def measure(
    browser: Browser, sides: dict[str, Installation], rounds: int
) -> dict[str, tuple[list[float], list[float], list[float]]]:
    """Measure in turns; give milliseconds by side: first cards, live cards after the notebook, and after the reload."""
    found: dict[str, tuple[list[float], list[float], list[float]]] = {name: ([], [], []) for name in sides}
    for _ in range(rounds):
        for name, installation in sides.items():
            with lab_server(installation) as server:
                found[name][0].append(first_card(browser, server))
                since_notebook, since_reload = live_cards(browser, server)
            print(f"  {name}: {found[name][0][-1]:.0f}, {since_notebook:.0f} and {since_reload:.0f} ms", flush=True)
            found[name][1].append(since_notebook)
            found[name][2].append(since_reload)
    return found


def print_cards(found: dict[str, tuple[list[float], list[float], list[float]]]) -> None:
    """Print medians and the slowest of each side."""
    for name, (first, live, reloaded) in found.items():
        print(f"{name}:")
        print(f"  first card after Shift+Enter, no controller: {_figures(first)} (goal {FIRST_GOAL} ms)")
        print(f"  {LIVE_CARDS} live cards after the notebook: {_figures(live)} (goal {RELOAD_GOAL} ms)")
        print(f"  the same since the page began to load: {_figures(reloaded)}")


def _figures(times: list[float]) -> str:
    return f"{percentile(times, 0.5):.0f} ms, at most {max(times):.0f} ms ({len(times)})"


@contextmanager
def lab_server(installation: Installation) -> Iterator[LabServer]:
    """Serve JupyterLab of an installation in a folder of its own."""
    from labserver import LabServer  # noqa: PLC0415 - of the browser tests

    with tempfile.TemporaryDirectory(prefix="smx-bench-cards-") as folder:
        server = LabServer(Path(folder), installation=installation)
        try:
            server.wait_ready()
            yield server
            server.settle()
            server.end_controller()
        finally:
            server.end()


def first_card(browser: Browser, server: LabServer) -> float:
    """Run the first job of a new kernel with the keyboard while no controller runs; give milliseconds to its card."""
    server.write_notebook("first.ipynb", LOADED, "%%train --name first\nprint('done')")
    lab = _open(browser, server, "first.ipynb")
    page = lab.page
    cell = page.locator(".jp-NotebookPanel .jp-CodeCell")
    cell.nth(0).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    _wait_executed(lab, 1)
    server.end_controller()
    page.wait_for_function(ABSENT)
    cell.nth(1).locator(".cm-content").click()
    page.evaluate(WATCH_FIRST)
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("() => window.cardAt !== null", timeout=60_000)
    took: float = page.evaluate("window.cardAt - window.pressedAt")
    _wait_executed(lab, 2)
    page.context.close()
    return took


def live_cards(browser: Browser, server: LabServer) -> tuple[float, float]:
    """Reload a notebook whose jobs run; give milliseconds to live cards since its first cell and since the reload."""
    from gate import Gate  # noqa: PLC0415 - of the browser tests

    gate = Gate()
    cells = [f"%%train --name live{number}\n{gate.code}" for number in range(LIVE_CARDS)]
    server.write_notebook("live.ipynb", LOADED, *cells)
    lab = _open(browser, server, "live.ipynb")
    lab.run_all()
    _wait_executed(lab, 1 + LIVE_CARDS)
    gate.wait_for_job()
    eventually_blocking(lambda: _is_saved(lab), "the notebook is saved", within=60.0)
    lab.page.add_init_script(WATCH_RELOAD % LIVE_CARDS)
    lab.reload("live.ipynb")
    lab.page.wait_for_function("() => window.liveAt !== null", timeout=60_000)
    notebook_at, live_at = lab.page.evaluate("[window.notebookAt, window.liveAt]")
    lab.page.context.close()
    gate.close()
    return live_at - notebook_at, live_at


def _is_saved(lab: Lab) -> bool:
    """Save the notebook; the outputs of cells that start may change it meanwhile."""
    lab.execute("docmanager:save")
    return lab.page.locator(".lm-DockPanel-tabBar .jp-mod-dirty").count() == 0


def _open(browser: Browser, server: LabServer, notebook: str) -> Lab:
    from lab import Lab  # noqa: PLC0415 - of the browser tests

    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(60_000)
    lab = Lab(context.new_page(), server)
    lab.open(notebook)
    return lab


def _wait_executed(lab: Lab, count: int) -> None:
    """Wait until a cell has the number that the kernel gives the ``count``-th execution."""
    prompt = lab.page.locator(".jp-NotebookPanel .jp-CodeCell .jp-InputPrompt").filter(has_text=f"[{count}]:")
    prompt.first.wait_for(timeout=60_000)

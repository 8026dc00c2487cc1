"""Compare what pages of two checkouts do, in turns on one machine, and what a browser loads of each.

    python -m bench compare_pages --other CHECKOUT [--rounds 3]

Both checkouts need a built labextension; build both for production, so that the sizes can be compared.
"""

from __future__ import annotations

import gzip
import json
import statistics
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import cards, lab
from bench.place import percentile, print_machine

ROOT = Path(__file__).parent.parent

if TYPE_CHECKING:
    import argparse

    from labserver import Installation
    from playwright.sync_api import Browser

RUNNING = 200
PLUGINS = b"jupyter-smx:model"
"""The name of a plugin, which is in the script that has the plugins."""


LOADED = """() => performance.getEntriesByType('resource')
  .filter(entry => entry.name.includes('/extensions/jupyter-smx/') && entry.startTime < window.restoredAt - 20)
  .map(entry => new URL(entry.name).pathname.split('/').pop())"""
"""Gives the names of our files that the page requested until Lab was restored; what follows from that begins later."""


class Sizes(NamedTuple):
    """Bytes of scripts as servers send them."""

    entry: int
    start: int
    """The first script and that with the plugins."""
    whole: int


def run(options: argparse.Namespace) -> None:
    """Print the figures of the other checkout and of this one, and their difference."""
    if not options.other:
        print("compare_pages: needs --other CHECKOUT, not measured")
        return
    from conftest import ARGUMENTS, browser_path  # noqa: PLC0415 - of the browser tests
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only wanted here

    print_machine((Path(options.other), ROOT))
    sides = cards.installations(options.other)
    checkouts = {"other": Path(options.other).resolve(), "this": ROOT}
    print_sizes(*map(sizes_of, checkouts.values()))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        starts = [bytes_at_start(browser, sides[name], path) / 1000 for name, path in checkouts.items()]
        _print_row("requested until Lab is restored", *starts)
        found: dict[str, list[lab.Figures]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, installation in sides.items():
                found[name].append(lab.crowd_figures(browser, RUNNING, installation))
        browser.close()
    before, after = found["other"], found["this"]
    print(f"  {options.rounds} rounds in turns, medians of rounds {'other':>10} {'this':>9}")
    for title, figure in FIGURES.items():
        old, new = (statistics.median(map(figure, figures)) for figures in (before, after))
        _print_row(title, old, new)
    for title, share in (("event to pixel, ms, all rounds, p50", 0.5), ("p95", 0.95)):
        old, new = (percentile(all_pixels(figures), share) for figures in (before, after))
        _print_row(title, old, new)


FIGURES = {
    "the panel is there, ms": lambda found: found.opened,
    "scrolling, frames/s": lambda found: 1000 / statistics.mean(found.frames),
    "scrolling, slowest frame, ms": lambda found: max(found.frames),
    "tasks over 50 ms": lambda found: float(len(found.tasks)),
    "events/s": lambda found: found.events / lab.WATCHED,
    "/api/status meanwhile, p99, ms": lambda found: percentile(found.answers, 0.99),
}


def all_pixels(found: list[lab.Figures]) -> list[float]:
    """Give the milliseconds from event to pixel of all rounds."""
    return list(chain.from_iterable(figures.pixels for figures in found))


def bytes_at_start(browser: Browser, installation: Installation, checkout: Path) -> int:
    """Start Lab without a notebook; return the packed bytes of our scripts that it requests until it is restored."""
    from lab import Lab  # noqa: PLC0415 - of the browser tests

    with cards.lab_server(installation) as server:
        context = browser.new_context()
        context.add_init_script(lab.RESTORED)
        page = context.new_page()
        Lab(page, server).open()
        names: list[str] = page.evaluate(LOADED)
        context.close()
    packed = packed_scripts(checkout)
    return sum(packed.get(name, 0) for name in names)


def packed_scripts(checkout: Path) -> dict[str, int]:
    """Return the bytes of each built script of a checkout, packed as servers send them."""
    static = checkout / "jupyter_smx" / "labextension" / "static"
    return {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in static.glob("*.js")}


def sizes_of(checkout: Path) -> Sizes:
    """Measure the built scripts of a checkout."""
    built = checkout / "jupyter_smx" / "labextension"
    load = json.loads((built / "package.json").read_text(encoding="utf-8"))["jupyterlab"]["_build"]["load"]
    scripts = {path.name: path.read_bytes() for path in (built / "static").glob("*.js")}
    packed = packed_scripts(checkout)
    entry = Path(load).name
    at_start = {entry, *(name for name, content in scripts.items() if PLUGINS in content)}
    return Sizes(packed[entry], sum(packed[name] for name in at_start), sum(packed.values()))


def print_sizes(before: Sizes, after: Sizes) -> None:
    """Print the sizes in kilobytes."""
    print(f"  {'packed scripts, kB':42} {'other':>9} {'this':>9}")
    for title, old, new in zip(("first script", "with that of the plugins", "all"), before, after, strict=True):
        _print_row(title, old / 1000, new / 1000)


def _print_row(title: str, old: float, new: float) -> None:
    print(f"  {title:42} {old:9.1f} {new:9.1f}   {new - old:+8.1f}")

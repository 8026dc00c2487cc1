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
from bench.place import percentile

ROOT = Path(__file__).parent.parent

if TYPE_CHECKING:
    import argparse

RUNNING = 200
PLUGINS = b"jupyter-smx:model"
"""The name of a plugin, which is in the script that has the plugins."""


class Sizes(NamedTuple):
    """Bytes of scripts as servers send them."""

    entry: int
    start: int
    """What is loaded when Lab starts."""
    whole: int


def run(options: argparse.Namespace) -> None:
    """Print the figures of the other checkout and of this one, and their difference."""
    if not options.other:
        print("compare_pages: needs --other CHECKOUT, not measured")
        return
    from conftest import ARGUMENTS, browser_path  # noqa: PLC0415 - of the browser tests
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only wanted here

    print_sizes(sizes_of(Path(options.other).resolve()), sizes_of(ROOT))
    sides = cards.installations(options.other)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        found: dict[str, list[lab.Figures]] = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, installation in sides.items():
                found[name].append(lab.crowd_figures(browser, RUNNING, installation))
        browser.close()
    before, after = found["other"], found["this"]
    print(f"  {options.rounds} rounds in turns, medians of rounds {'other':>10} {'this':>9}")
    for title, figure in FIGURES.items():
        old, new = (statistics.median(map(figure, figures)) for figures in (before, after))
        print(f"  {title:42} {old:9.1f} {new:9.1f}   {new - old:+8.1f}")
    for title, share in (("event to pixel, ms, all rounds, p50", 0.5), ("p95", 0.95)):
        old, new = (percentile(all_pixels(figures), share) for figures in (before, after))
        print(f"  {title:42} {old:9.1f} {new:9.1f}   {new - old:+8.1f}")


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


def sizes_of(checkout: Path) -> Sizes:
    """Measure the built scripts of a checkout, packed as servers send them."""
    built = checkout / "jupyter_smx" / "labextension"
    load = json.loads((built / "package.json").read_text(encoding="utf-8"))["jupyterlab"]["_build"]["load"]
    scripts = {path.name: path.read_bytes() for path in (built / "static").glob("*.js")}
    packed = {name: len(gzip.compress(content, 9)) for name, content in scripts.items()}
    entry = Path(load).name
    at_start = {entry, *(name for name, content in scripts.items() if PLUGINS in content)}
    return Sizes(packed[entry], sum(packed[name] for name in at_start), sum(packed.values()))


def print_sizes(before: Sizes, after: Sizes) -> None:
    """Print the sizes in kilobytes."""
    print(f"  {'packed scripts, kB':42} {'other':>9} {'this':>9}")
    for title, old, new in zip(("first script", "at Lab's start", "all"), before, after, strict=True):
        print(f"  {title:42} {old / 1000:9.1f} {new / 1000:9.1f}   {(new - old) / 1000:+8.1f}")

"""What a browser loads of us: little in all, less when JupyterLab starts, and what draws charts only for a chart."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

BUILT = Path(__file__).parents[2] / "jupyter_smx" / "labextension"
KB = 1000
WHOLE = 300 * KB
"""Bytes of all scripts together, packed as servers send them."""
ENTRY = 20 * KB
"""Bytes of the script that Lab loads first and that names all others."""
START = 33 * KB
"""Bytes of the two scripts that Lab loads when it starts; they were 34.9 kB before cards had failures and arrays."""
START_DEVELOPMENT = 68 * KB
"""The same of a build for development, which is not made short."""

DRAWS = "dppxchange"
"""An event's name in uPlot, which is in no other script and which no minifier changes."""
CHARTS = "No data in this time range."
"""A sentence of the charts."""
CARDS = "The submission failed: see the error below."
"""A sentence of cards."""
LISTS = "Searching older jobs"
"""Words of the panel's lists."""
PLUGINS = "jupyter-smx:model"
"""The name of a plugin, which is where the plugins are."""


@pytest.fixture(scope="module")
def scripts() -> dict[str, bytes]:
    if not (BUILT / "package.json").exists():
        pytest.skip("The JupyterLab side is not built: make build.")
    return {path.name: path.read_bytes() for path in (BUILT / "static").glob("*.js")}


def entry() -> str:
    build: Any = json.loads((BUILT / "package.json").read_text())["jupyterlab"]["_build"]
    return Path(build["load"]).name


def is_development(scripts: dict[str, bytes]) -> bool:
    """Builds for development name scripts by their modules, those for production by numbers."""
    return any(name.startswith("lib_") for name in scripts)


def packed(contents: list[bytes]) -> int:
    return sum(len(gzip.compress(content, 9)) for content in contents)


def those_with(scripts: dict[str, bytes], mark: str) -> set[str]:
    return {name for name, content in scripts.items() if mark.encode() in content}


def at_start(scripts: dict[str, bytes]) -> set[str]:
    return {entry(), *those_with(scripts, PLUGINS)}


def test_all_of_it_is_small(scripts: dict[str, bytes]) -> None:
    sizes = {name: packed([content]) for name, content in scripts.items()}
    assert sum(sizes.values()) <= WHOLE, sizes


def test_what_lab_loads_when_it_starts_is_smaller(scripts: dict[str, bytes]) -> None:
    assert packed([scripts[entry()]]) <= ENTRY
    limit = START_DEVELOPMENT if is_development(scripts) else START
    assert packed([scripts[name] for name in at_start(scripts)]) <= limit


@pytest.mark.parametrize("mark", [CARDS, LISTS])
def test_cards_and_lists_are_loaded_with_the_first_notebook_and_the_panel(scripts: dict[str, bytes], mark: str) -> None:
    found = those_with(scripts, mark)
    assert len(found) == 1
    assert not found & at_start(scripts)


def test_charts_and_what_draws_them_are_loaded_with_the_first_chart(scripts: dict[str, bytes]) -> None:
    for mark in (DRAWS, CHARTS):
        found = those_with(scripts, mark)
        assert len(found) == 1, mark
        assert not found & at_start(scripts), mark
    assert those_with(scripts, DRAWS) != those_with(scripts, CHARTS), "tables need nothing that draws"

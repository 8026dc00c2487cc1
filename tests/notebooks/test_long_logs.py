"""A notebook whose jobs print more than ten megabytes stays small, with the first and the last lines of each log."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import nbformat
import papermill
from nbclient import NotebookClient
from notebook_files import printed_by_cell, write

from jupyter_smx.kernel.front_end import LOG_LIMIT
from jupyter_smx.model.text import format_size

if TYPE_CHECKING:
    from pathlib import Path

LINES = 40_000
LINE = "x" * 292
"""With its number and the newline, 300 bytes: a log of 12 MB."""

LONG = f"""%%train --wait --keep-alive 1m --name long --as long
for number in range({LINES}):
    print(f"{{number:06}}", "{LINE}")"""

BAR = f"""%%train --wait --name bar
for number in range({LINES}):
    print(f"\\r{{number:06}} {LINE}", end="")
print("\\nafter the bar")"""

CELL_SIZE = int(LOG_LIMIT * 1.1)
"""Bytes of a cell in the file, which writes each line of a text with an indent, and of its card."""


def check_size(notebook: Path) -> None:
    """Check that no cell of a notebook takes more of the file than its limit allows."""
    cells = nbformat.read(notebook, as_version=4).cells
    assert notebook.stat().st_size < CELL_SIZE * (len(cells) - 1)
    assert all(len(json.dumps(cell)) < CELL_SIZE for cell in cells)


def check_ends(text: str) -> None:
    """Check that a cell has the first and the last lines of the long log, and says what is missing."""
    lines = text.splitlines()
    assert f"{0:06} {LINE}" in lines
    assert f"{LINES - 1:06} {LINE}" in lines
    said = [line for line in lines if line.startswith("jupyter_smx: ")]
    shown = sum(line.endswith(LINE) for line in lines)
    assert "`jupyter smx logs long" in said[0]
    missing = LINES - shown
    assert said[1] == f"jupyter_smx: {missing:,} lines ({format_size(missing * 300)}) are left out here."
    assert len(text) > LOG_LIMIT * 0.9


def test_a_notebook_with_a_long_log_stays_small_and_has_its_ends(folder: Path) -> None:
    """Run it by papermill, which writes the notebook after each cell."""
    notebook, done = write(folder / "long.ipynb", ("%load_ext jupyter_smx", LONG)), folder / "done.ipynb"
    papermill.execute_notebook(notebook, done, cwd=str(notebook.parent), progress_bar=False)
    check_size(done)
    check_ends(printed_by_cell(done)[1])


def test_each_way_to_a_long_log_and_a_progress_bar_stay_within_the_limit(folder: Path) -> None:
    """Run it by nbclient, as programs do that use the library."""
    cells = ("%load_ext jupyter_smx", LONG, BAR, "%smx logs long", "long.follow()")
    notebook, done = nbformat.read(write(folder / "long.ipynb", cells), as_version=4), folder / "done.ipynb"
    NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(notebook, done)
    check_size(done)
    _, long, bar, *others = printed_by_cell(done)
    for text in (long, *others):
        check_ends(text)
    assert "\nafter the bar\n" in bar
    assert re.search(r"jupyter_smx: 1 line \(1\d\.\d MiB\) is left out here\.\n", bar)

"""Write notebooks, and read what their cells printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write(path: Path, cells: Sequence[str]) -> Path:
    """Write a notebook for the kernel of this environment."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, path)
    return path


def printed_by_cell(path: Path) -> list[str]:
    """Collect what each cell of an executed notebook printed."""
    cells = nbformat.read(path, as_version=4).cells
    return ["".join(output.get("text", "") for output in cell.get("outputs", [])) for cell in cells]


def printed(path: Path) -> str:
    """Collect what all cells of an executed notebook printed."""
    return "".join(printed_by_cell(path))

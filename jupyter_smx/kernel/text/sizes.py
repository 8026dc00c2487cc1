"""Sizes in words."""

from __future__ import annotations


def format_size(size: int) -> str:
    """Write a size for people, in decimal units: ``812 B``, ``1.2 MB``."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - decimal units
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"

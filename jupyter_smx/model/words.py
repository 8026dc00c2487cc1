"""Names in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(names: Sequence[str], most: int = 3) -> str:
    """Join names as people say them, and count those after the first few: ``a and b``, ``a, b, c and 2 more``."""
    more = len(names) - most
    shown = [*names[:most], f"{more} more"] if more > 0 else [*names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)

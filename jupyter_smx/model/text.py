"""Names and values in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


_LONGEST = 64
"""Characters of a value that a sentence shows, and bits of a number that it writes out."""
_DIGITS, _PLACES = 3, 20
_TEN_CENTS = 0.1
_SMALL, _LARGE = 1e-4, 1e6
_SIZE_UNITS, _SIZE_STEP = ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), 1024


def format_value(value: object) -> str:
    """Write any value as Python does, cut short where it is long."""
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return f"a number of {value.bit_length()} bits"  # Python itself refuses to write very many digits
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - border: how a value is written is its own code, which may raise anything
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def format_list(names: Sequence[str], most: int = 3) -> str:
    """Join names as people say them, and count those after the first few: ``a and b``, ``a, b, c and 2 more``."""
    more = len(names) - most
    shown = [*names[:most], f"{more} more"] if more > 0 else [*names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def format_count(count: int, noun: str) -> str:
    """Write a number of things: ``1 file``, ``2 files``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_number(value: float) -> str:
    """Write a value of a metric: four digits, or all of a whole number below a million: ``0.2134``, ``123456``."""
    size = abs(value)
    if size and not _SMALL <= size < _LARGE:
        return f"{value:.3g}"
    return f"{value:.{max(4, len(str(int(size))))}g}"


def format_usd(amount: float) -> str:
    """Write dollars: cents, or three digits that count where it is less than ten of them; never in powers of ten."""
    size = abs(float(f"{amount:.{_DIGITS}g}"))  # what is rounded up to ten cents is written as they are
    places = min(_PLACES, _DIGITS - 1 - math.floor(math.log10(size))) if 0 < size < _TEN_CENTS else 2
    return f"${amount:.{places}f}"


def format_size(count: float) -> str:
    """Write bytes in binary units, as the agent and the browser do: ``812 B``, ``1.5 GiB``."""
    for unit in _SIZE_UNITS[:-1]:
        if count < _SIZE_STEP:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _SIZE_STEP
    return f"{count:.1f} {_SIZE_UNITS[-1]}"

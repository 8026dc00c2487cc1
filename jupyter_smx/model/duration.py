"""Durations as users write them: ``600``, ``90s``, ``10m``, ``1h``, ``1h30m``, ``2d``."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.text import format_value

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+)([dhms])")
_DIGITS = 12
"""Seconds of more digits are longer than anything can wait."""
_WHOLE = re.compile(r"(?:\d+[dhms])+")


def parse(value: object, field: str = "keep_alive") -> int:
    """Read a duration in seconds: a whole number, or text.

    :raises ValidationError: not a number of seconds and not numbers with units.
    """
    text = value.strip().lower() if isinstance(value, str) else _digits(value)
    if text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    if _WHOLE.fullmatch(text) and len(text) <= 4 * _DIGITS:
        return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    raise ValidationError(
        f"--{field.replace('_', '-')}: {format_value(value)} is not a duration.",
        field=field,
        value=format_value(value).strip("'"),
        rule="A duration is a number of seconds, or numbers with the units d, h, m or s.",
        cure="For example 600, 10m or 1h30m.",
    )


def format_option(seconds: int) -> str:
    """Write a duration as an option takes it, in the largest unit that divides it: ``1d``, ``90s``, ``0``."""
    unit = next((name for name, size in _UNITS.items() if seconds and seconds % size == 0), "")
    return f"{seconds // _UNITS[unit]}{unit}" if unit else "0"


def _digits(value: object) -> str:
    """Write a whole number, numpy's too, as text; of anything else, and of more than anything can wait, nothing."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return ""
    number = operator.index(value)
    return str(number) if 0 <= number < 10**_DIGITS else ""


def format_estimate(seconds: float) -> str:
    """Write a duration that is only estimated, with no more digits than it deserves: ``40 s``, ``3 min``, ``1.5 h``."""
    halves = 0.5 * round(seconds / 1_800)
    if seconds < 9.5:  # noqa: PLR2004 - here and below: from where the next unit is the one that people say
        return f"{max(1, round(seconds))} s"
    if seconds < 57.5:  # noqa: PLR2004
        return f"{5 * round(seconds / 5)} s"
    if seconds < 5_370:  # noqa: PLR2004
        return f"{max(1, round(seconds / 60))} min"
    return f"{halves:g} h" if halves < 36 else f"{0.5 * round(seconds / 43_200):g} d"  # noqa: PLR2004


def format_precise(seconds: float) -> str:
    """Write a time that is measured finely, as that of a step: ``0.4 ms``, ``86.2 ms``, ``1.19 s``."""
    if round(seconds, 3) >= 1 and round(seconds, 2) < 10:  # noqa: PLR2004 - above it a tenth is the third digit
        return f"{seconds:.3g} s"
    return format_duration(seconds) if round(seconds, 3) >= 0.1 else f"{seconds * 1000:.3g} ms"  # noqa: PLR2004 - three digits


def format_duration(seconds: float) -> str:
    """Write a duration for people, two units at most: ``850 ms``, ``4.2 s``, ``10 min``, ``1 h 30 min``."""
    # What would be rounded up to the next unit is said in the next unit.
    if round(seconds, 3) < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])

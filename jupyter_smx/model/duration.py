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
    """Write a whole number, numpy's too, as text; "" for anything else, and for numbers above any possible wait."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return ""
    number = operator.index(value)
    return str(number) if 0 <= number < 10**_DIGITS else ""

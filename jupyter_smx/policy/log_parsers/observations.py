"""Observations from one log line: a counter that moved, an epoch that began or ended, named values."""

from __future__ import annotations

import re

from msgspec import Struct

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
"""A number as Python, C and JSON print it; use it without case."""
COUNT = r"\d{1,15}"
"""A whole number that a float represents exactly; longer ones are ignored."""

_END = r"(?![\w.:/])"  # not the beginning of "36ms", "0:00:01" or "3/10"
_PAIRS = re.compile(
    rf"(?<![\w`])([A-Za-z_][\w./@%'-]*(?: [A-Za-z_][\w./@%'-]*)?)\s*[:=]\s*['\"]?({NUMBER}){_END}", re.IGNORECASE
)
_NO_METRIC = frozenset({"v_num", "epoch", "epochs", "step", "steps", "iter", "iteration", "eta", "time", "elapsed"})
_LONGEST_NAME = 64
_LONGEST_PART = 6  # digits of hours, minutes, seconds and days: a million hours is longer than any job


class Counter(Struct, frozen=True):
    """A progress bar, or a count in words.

    ``done`` of ``total`` (None: unknown) in the unit that it counts, ``words`` as printed (``391k/2.86M``),
    ``remaining`` seconds by its own estimate, ``depth`` 0 unless it is drawn under another bar. ``aside`` means that it
    counts work beside the job's main work: loading, validation.
    """

    done: float
    total: float | None
    words: str
    label: str = ""
    remaining: float | None = None
    depth: int = 0
    aside: bool = False


class Epoch(Struct, frozen=True):
    """An epoch of ``total`` (None: unknown); ``ended`` if the line is printed at its end.

    ``number`` is as printed. ``from_zero`` is True if this format counts from 0, None if only the log can show it.
    """

    number: int
    total: int | None = None
    ended: bool = False
    from_zero: bool | None = None


class AnnouncedTotals(Struct, frozen=True):
    """The number of epochs or boosting rounds in the job request, if any."""

    epochs: int | None = None
    rounds: int | None = None


class LineObservation(Struct, frozen=True):
    """Content of one line. ``step`` is the line's own step for its values, if it has one."""

    counter: Counter | None = None
    epoch: Epoch | None = None
    values: tuple[tuple[str, float | None], ...] = ()
    step: float | None = None
    counted: float | None = None
    """Number of completed steps in the line, None if it has none."""


def parse_pairs(text: str) -> tuple[tuple[str, float | None], ...]:
    """Parse ``name: 0.5`` and ``name=0.5`` anywhere in ``text``; two words before the sign are one name."""
    found: dict[str, float | None] = {}
    for name, number in _PAIRS.findall(text):
        clean = name.strip("'").replace(" ", "_")
        if clean.lower() not in _NO_METRIC and len(clean) <= _LONGEST_NAME:
            found[clean] = parse_number(number)
    return tuple(found.items())


def parse_number(text: str) -> float | None:
    """Parse a number, None for nan and the infinities, which JSON cannot represent."""
    number = float(text)
    return number if number - number == 0 else None


def parse_clock(text: str) -> float | None:
    """Read ``01:05``, ``1:02:03`` or ``1 day, 1:02:03`` in seconds; None for ``?`` and what no job lasts."""
    days, _, rest = text.rpartition(" ")
    count = days.split(" ")[0].rstrip("d,") or "0"
    parts = rest.split(":")
    if len(parts) > len(("hours", "minutes", "seconds")) or not all(map(_is_part, (count, *parts))):
        return None
    total = 0.0
    for part in parts:
        total = total * 60 + int(part)
    return total + 86_400 * int(count)


def _is_part(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST_PART

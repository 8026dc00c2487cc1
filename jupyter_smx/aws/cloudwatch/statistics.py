"""Statistics of values by period, as CloudWatch computes them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "SampleCount": len,
    "Average": fmean,
    "Sum": math.fsum,
    "Minimum": min,
    "Maximum": max,
}
SHORT_PERIODS = (1, 5, 10, 20, 30)
"""Seconds; longer periods are minutes."""
_MINUTE = 60
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,10})?|100)")


class MetricPoint(NamedTuple):
    """A value and its moment, in seconds since the epoch."""

    at: float
    value: float


class Period(NamedTuple):
    """The values of one period; ``begin`` is in seconds since the epoch, a multiple of its length."""

    begin: int
    values: list[float]


def is_period(seconds: int) -> bool:
    """Return True if CloudWatch has periods of this length."""
    return seconds in SHORT_PERIODS or (seconds >= _MINUTE and seconds % _MINUTE == 0)


def by_period(points: Iterable[MetricPoint], begin: float, end: float, seconds: int) -> list[Period]:
    """Group points by period, oldest first, from that of ``begin`` to the last one that begins before ``end``."""
    first = math.floor(begin / seconds) * seconds
    found: dict[int, list[float]] = defaultdict(list)
    for point in points:
        period = math.floor(point.at / seconds) * seconds
        if first <= period < end:
            found[period].append(point.value)
    return [Period(period, found[period]) for period in sorted(found)]


def statistic(name: str) -> Callable[[Sequence[float]], float] | None:
    """Return the function of a statistic, or of a percentile as ``p99.9``; None if there is none of this name."""
    percentile = _PERCENTILE.fullmatch(name)
    if percentile is None:
        return STATISTICS.get(name)
    share = float(percentile[1]) / 100
    return lambda values: _percentile(sorted(values), share)


def _percentile(ordered: list[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

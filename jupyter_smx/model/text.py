"""Names, values, sizes, durations and moments in a sentence."""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_LONGEST = 64
"""Characters of a value that a sentence shows, and bits of a number that it writes out."""
_DIGITS, _PLACES = 3, 20
_TEN_CENTS = 0.1
_LOG_LINES, _LOG_LENGTH = 5, 600
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SMALL, _LARGE = 1e-4, 1e6
_DAY, _HALF_DAY = 86_400, 43_200
_TIME_UNITS = (("d", _DAY), ("h", 3_600), ("min", 60), ("s", 1))
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


LEFT_OUT = "of this log were left out here"
"""Words that mark bytes of a log that are not on the disk any more."""
NOTICE_SIZE = 256
"""Bytes before a gap of a log that its sentence takes, spaces at its end included: the next one is written over it."""


def format_size(count: float) -> str:
    """Write bytes in binary units, as the agent and the browser do: ``812 B``, ``1.5 GiB``."""
    for unit in _SIZE_UNITS[:-1]:
        if count < _SIZE_STEP:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _SIZE_STEP
    return f"{count:.1f} {_SIZE_UNITS[-1]}"


def format_left_out(size: int) -> str:
    """Format the beginning of the sentence in a log about bytes that are not on the disk any more."""
    return f"{format_size(size)} {LEFT_OUT}"


def format_log_end(text: str) -> str:
    """Write the last lines of a log in one line, for a sentence: 600 characters at most, without escape sequences."""
    lines = [line.strip() for line in _ESCAPE.sub("", text).splitlines()]
    joined = "".join(filter(str.isprintable, " | ".join([line for line in lines if line][-_LOG_LINES:])))
    return joined if len(joined) <= _LOG_LENGTH else f"…{joined[-_LOG_LENGTH:]}"


def format_duration(seconds: float) -> str:
    """Write a duration, two units at most: ``850 ms``, ``4.2 s``, ``10 min``, ``1 h 30 min``; a negative one as 0."""
    # What would be rounded up to the next unit is written in the next unit.
    if (milliseconds := _nearest(max(0.0, seconds) * 1_000)) < 1_000:  # noqa: PLR2004 - a second
        return f"{milliseconds} ms"
    if (tenths := _nearest(seconds * 10)) < 600:  # noqa: PLR2004 - a minute
        return f"{tenths / 10:g} s"
    remaining = _nearest(seconds)
    parts = []
    for unit, size in _TIME_UNITS:
        count, remaining = divmod(remaining, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def format_precise(seconds: float) -> str:
    """Write a duration with three digits below 10 s, for that of a step: ``0.4 ms``, ``86.2 ms``, ``1.19 s``."""
    if (milliseconds := float(f"{seconds * 1_000:.3g}")) < 1_000:  # noqa: PLR2004 - a second
        return f"{milliseconds:g} ms"
    short = float(f"{seconds:.3g}")
    return f"{short:g} s" if short < 10 else format_duration(seconds)  # noqa: PLR2004 - then a tenth is the third digit


def format_estimate(seconds: float) -> str:
    """Write an estimated duration with one or two digits: ``40 s``, ``3 min``, ``1.5 h``, ``2.5 d``."""
    halves = _nearest(seconds / 1_800) / 2
    if seconds < 9.5:  # noqa: PLR2004 - here and below: the next unit takes over where its rounded value begins
        return f"{max(1, _nearest(seconds))} s"
    if seconds < 57.5:  # noqa: PLR2004
        return f"{5 * _nearest(seconds / 5)} s"
    if seconds < 5_370:  # noqa: PLR2004
        return f"{max(1, _nearest(seconds / 60))} min"
    return f"{halves:g} h" if halves < 36 else f"{_nearest(seconds / _HALF_DAY) / 2:g} d"  # noqa: PLR2004


def format_moment(at: float, now: float | None = None, *, zone: bool = False) -> str:
    """Write a moment (seconds since the epoch) by the clock of this machine: ``2026-10-02 14:05:07``.

    Within 12 hours of ``now`` only the time: ``14:05``; further away ``2026-10-02 14:05``. ``zone`` appends the offset
    from UTC, for text that is kept: ``+0200``.
    """
    form = "%Y-%m-%d %H:%M:%S" if now is None else "%H:%M" if abs(at - now) < _HALF_DAY else "%Y-%m-%d %H:%M"
    return time.strftime(f"{form} %z" if zone else form, time.localtime(at))


def _nearest(value: float) -> int:
    """Round a half up, as JavaScript does; ``round`` rounds it to the even number."""
    return math.floor(value + 0.5)


def format_options(options: Mapping[str, str]) -> str:
    """Format options of an engine as ``--engine-option`` takes them, sorted, "" for none."""
    return ", ".join(f"{name}={value}" for name, value in sorted(options.items()))


def engine_kind(name: str) -> str:
    """Name the engine without its target: ``ssh`` of ``ssh:gpu-box``."""
    return name.partition(":")[0]


def format_engine(name: str, machines: Sequence[str] = ()) -> str:
    """Name an engine with the machines of its hosts: ``ssh (gpu-box)``; ``ssh:gpu-box`` names its machine already."""
    return f"{name} ({', '.join(machines)})" if machines and name == engine_kind(name) else name

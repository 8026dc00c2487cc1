"""The step rate of a job, computed from the counts that it printed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.results.progress import StepPace

if TYPE_CHECKING:
    from collections.abc import Iterable

_STEP_NAMES = frozenset({"step", "steps", "global_step", "global_steps", "train_step", "training_step"})


class Pace(Struct, frozen=True):
    """The newest count and when it came; the steps and seconds between counts that grew, and the highest count.

    A count that restarts (in each epoch) adds nothing but a new start, so the time between two epochs is in
    none of the steps.
    """

    last: float | None = None
    at: float = 0.0
    steps: float = 0.0
    seconds: float = 0.0
    most: float = 0.0


def is_step(name: str) -> bool:
    """Return True if a metric of that name counts steps."""
    return name.strip().lower().replace("-", "_").replace(" ", "_") in _STEP_NAMES


def step_count(values: Iterable[tuple[str, float | None]], said: float | None) -> float | None:
    """Return the count of steps in a line: a metric with such a name, else the line's own count."""
    return next((value for name, value in values if value is not None and is_step(name)), said)


def update_pace(pace: Pace, count: float, at: float) -> Pace:
    """Take in that ``count`` steps were done at ``at``."""
    most = max(pace.most, count)
    # The moments of lines that are read at once are unknown: the last of them is the first with a known moment.
    if pace.last is None or count < pace.last or (at <= pace.at and not pace.steps):
        return replace(pace, last=count, at=at, most=most)
    if count == pace.last:
        return pace
    return Pace(
        last=count,
        at=max(at, pace.at),
        steps=pace.steps + count - pace.last,
        seconds=pace.seconds + max(0.0, at - pace.at),
        most=most,
    )


def pace_of(pace: Pace) -> StepPace | None:
    """Return the mean time of a step; None before two counts at different times."""
    if pace.steps <= 0 or pace.seconds <= 0:
        return None
    return StepPace(steps=pace.most, seconds=pace.seconds / pace.steps)

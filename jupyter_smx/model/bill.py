"""What a job is billed for."""

from __future__ import annotations

from msgspec import Struct


class Bill(Struct, frozen=True, kw_only=True):
    """Dollars per hour of all its hosts, the seconds that count, and the sum; None where a price is not known.

    ``billable_seconds`` are those of the job itself, in all its attempts; ``retained_seconds`` those in which its pool
    stood idle after it, so far. ``cost_per_step`` is what all hosts cost while one step is done that the job counts:
    ``price_per_hour`` × ``step_seconds`` / 3600; None where it counts none. ``steps`` are done.
    """

    price_per_hour: float | None
    billable_seconds: float
    retained_seconds: float
    cost: float | None
    steps: float | None = None
    step_seconds: float | None = None
    cost_per_step: float | None = None

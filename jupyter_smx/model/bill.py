"""What a job is billed for."""

from __future__ import annotations

from msgspec import Struct


class Bill(Struct, frozen=True, kw_only=True):
    """Dollars per hour of all its hosts, the seconds that count, and the sum; None where a price is not known.

    ``training_seconds`` are those in which it ran, in all its attempts, and ``billable_seconds`` those of them that are
    charged (SageMaker's ``TrainingTimeInSeconds`` and ``BillableTimeInSeconds``, of one instance); ``retained_seconds``
    those in which its pool stood idle after it, so far. ``cost_per_step`` is what all hosts cost while one step is done
    that the job counts: ``price_per_hour`` × ``step_seconds`` / 3600; None where it counts none. ``steps`` are done.
    """

    price_per_hour: float | None
    billable_seconds: float
    retained_seconds: float
    cost: float | None
    steps: float | None = None
    step_seconds: float | None = None
    cost_per_step: float | None = None
    training_seconds: float = 0.0

    def savings(self) -> float | None:
        """Give the percentage that managed spot saves, as SageMaker defines it; None while nothing has run."""
        if self.training_seconds <= 0:
            return None
        return (1 - self.billable_seconds / self.training_seconds) * 100

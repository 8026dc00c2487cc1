"""What a job is billed for."""

from __future__ import annotations

from msgspec import Struct


class GroupBill(Struct, frozen=True, kw_only=True):
    """The part of a job's bill that one of its instance groups has; None where its price is not known.

    ``price_per_hour`` is that of all its hosts. A group that helps another one (``until``) is billed as long as the job
    is: its hosts are the job's until the end.
    """

    name: str
    instance_type: str
    instance_count: int
    price_per_hour: float | None
    cost: float | None
    until: str = ""


class Bill(Struct, frozen=True, kw_only=True):
    """Dollars per hour of all its hosts, the seconds that count, and the sum; None where a price is not known.

    ``training_seconds`` are those in which it ran, in all its attempts, and ``billable_seconds`` those of them that are
    charged (SageMaker's ``TrainingTimeInSeconds`` and ``BillableTimeInSeconds``, of one instance); ``retained_seconds``
    those in which its pool stood idle after it, so far. ``cost_per_step`` is what all hosts cost while one step is done
    that the job counts: ``price_per_hour`` × ``step_seconds`` / 3600; None where it counts none. ``steps`` are done.
    ``groups`` are the parts of price and sum.
    """

    price_per_hour: float | None
    billable_seconds: float
    retained_seconds: float
    cost: float | None
    steps: float | None = None
    step_seconds: float | None = None
    cost_per_step: float | None = None
    training_seconds: float = 0.0
    groups: tuple[GroupBill, ...] = ()

    def savings(self) -> float | None:
        """Give the percentage that managed spot saves, as SageMaker defines it; None while nothing has run."""
        if self.training_seconds <= 0:
            return None
        return (1 - self.billable_seconds / self.training_seconds) * 100

"""Costs of jobs and idle pools: instance-hours at the prices of the catalogue, in US dollars.

``Σ groups count · price · seconds / 3600``, for the billable seconds of a job and apart from them for the seconds in
which its pool was retained. An instance type without a known price makes the sum unknown, never zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.results.reports import Bill, GroupBill
from jupyter_smx.policy.lifecycle.transitions import attempt_seconds, is_attempt_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.progress import StepPace
    from jupyter_smx.model.spec.instance import Catalogue, InstanceGroup

HOUR = 3_600.0


def rate(groups: Iterable[InstanceGroup], known: Catalogue) -> float | None:
    """Add up dollars per hour of all hosts; None if a price is unknown."""
    total = 0.0
    for group in groups:
        kind = known.get(group.instance_type)
        if kind is None or kind.price_per_hour is None:
            return None
        total += kind.price_per_hour * group.instance_count
    return total


def counted_nodes(groups: Iterable[InstanceGroup], known: Catalogue, *, in_allocation: bool) -> int:
    """Count the hosts whose time counts as node hours: those of an allocation without a price; else 0.

    A price of zero is that of hosts on the user's own machine, and says nothing of an allocation.
    """
    groups = tuple(groups)
    return sum(group.instance_count for group in groups) if in_allocation and not rate(groups, known) else 0


def cost(groups: Iterable[InstanceGroup], seconds: float, known: Catalogue) -> float | None:
    """Dollars for that many seconds on those hosts; None if a price is unknown."""
    per_hour = rate(groups, known)
    return None if per_hour is None else per_hour * seconds / HOUR


def training_seconds(job: Job, now: float) -> float:
    """Seconds per instance from the start of the job's hosts to its end, or to now, in all attempts."""
    # The time between two attempts is not charged.
    taken = math.fsum(attempt.seconds() for attempt in job.attempts if attempt.interrupted)
    return billable_seconds(job, now) + taken + (_last_attempt(job, now) if is_attempt_interrupted(job) else 0.0)


def billable_seconds(job: Job, now: float) -> float:
    """Seconds per instance that are charged: a run that lost its hosts to an interruption is not, be it the last one.

    SageMaker charges what a spot instance cost, for which no catalogue has a price; so what is charged here is the
    full price of the runs that were left to themselves.
    """
    if job.started_at is None:
        return 0.0
    kept = math.fsum(attempt.seconds() for attempt in job.attempts if not attempt.interrupted)
    return kept if is_attempt_interrupted(job) else kept + _last_attempt(job, now)


def _last_attempt(job: Job, now: float) -> float:
    if job.started_at is None:
        return 0.0
    counted = attempt_seconds(job, now) if job.ended_at is None else job.ran_seconds
    if counted is not None:
        return counted
    # Only the hosts reported its start, or the record is of a version that did not count seconds.
    began = attempt_started_at(job) if job.attempts else job.started_at
    return 0.0 if began is None else max(0.0, (job.ended_at or now) - began)


def retained_seconds(job: Job) -> float:
    """Seconds in which the pool of a job stood idle after it, as its record has them."""
    return job.warm_pool.resource_retained_billable_seconds if job.warm_pool else 0.0


def job_cost(job: Job, known: Catalogue, now: float) -> float | None:
    """Dollars for a job, with the idle time that its pool was retained after it."""
    return cost(job.spec.instance_groups, billable_seconds(job, now) + retained_seconds(job), known)


def cost_per_step(groups: Iterable[InstanceGroup], seconds: float, known: Catalogue) -> float | None:
    """Dollars for one step of that many seconds on all hosts; None if a price is unknown.

    What a step costs while the job does steps: start, inputs and outputs are in the cost of the job only.
    """
    return cost(groups, seconds, known)


def bill(job: Job, known: Catalogue, now: float, pace: StepPace | None = None) -> Bill:
    """Return the bill of a job, line by line; ``pace`` is that of a live job, else its record has it."""
    pace = pace or job.pace
    charged = billable_seconds(job, now) + retained_seconds(job)
    usage = job.warm_pool.platform_usage if job.warm_pool else None
    return Bill(
        steps=pace.steps if pace else None,
        step_seconds=pace.seconds if pace else None,
        cost_per_step=cost_per_step(job.spec.instance_groups, pace.seconds, known) if pace else None,
        price_per_hour=rate(job.spec.instance_groups, known),
        billable_seconds=billable_seconds(job, now),
        retained_seconds=retained_seconds(job),
        cost=job_cost(job, known, now),
        training_seconds=training_seconds(job, now),
        groups=tuple(_group_bill(group, charged, known) for group in job.spec.instance_groups),
        platform_usage=usage.sentence() if usage else "",
    )


def _group_bill(group: InstanceGroup, seconds: float, known: Catalogue) -> GroupBill:
    return GroupBill(
        name=group.name,
        instance_type=group.instance_type,
        instance_count=group.instance_count,
        price_per_hour=rate((group,), known),
        cost=cost((group,), seconds, known),
        until=group.until,
    )

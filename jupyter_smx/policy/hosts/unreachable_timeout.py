"""The time-out of unreachable hosts, which may still run code; separate, so that it is defined once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.status import TERMINAL_GOALS

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.policy.limits import Limits


class UnreachablePeriod(Struct, frozen=True):
    """Start of a host's silence, and of a stop request during it, by the monotonic clock."""

    since: float
    unwanted_since: float | None = None
    abandoned: bool = False
    """The user asked not to wait at all."""

    def is_expired(self, now: float, limits: Limits) -> bool:
        """Return True if it took too long; after a stop request the limit is the grace period."""
        if self.abandoned:
            return True
        unwanted = self.unwanted_since is not None and now - self.unwanted_since > limits.grace
        return unwanted or now - self.since > limits.unreachable_limit


def extend_unreachable(before: UnreachablePeriod | None, job: Job | None, now: float) -> UnreachablePeriod:
    """Continue an unreachable period, or begin one; pure."""
    period = before or UnreachablePeriod(now)
    if job is None or job.goal not in TERMINAL_GOALS:
        return replace(period, unwanted_since=None)
    since = now if period.unwanted_since is None else period.unwanted_since
    return replace(period, unwanted_since=since, abandoned=job.abandoned)

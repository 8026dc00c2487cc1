"""When a verdict waits no longer for hosts that cannot be reached; apart, because jobs and clusters both ask it.

===================================  ==============================================================================
what happened                        what follows
===================================  ==============================================================================
``stop --abandon``                   the verdict at once, if the hosts do not answer
a stop                               the verdict when the grace period is over
maximum run time and grace are over  the verdict, once the hosts did not answer for ``unreachable_limit`` seconds
===================================  ==============================================================================

Each time the cluster stays ``Releasing`` until its engine proves the release, which ends whatever still runs there.
Until then no other attempt of the job begins: code of one job never runs twice at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.records.job import attempt_started_at, current_attempt_transitions
from jupyter_smx.model.status import TERMINAL_GOALS
from jupyter_smx.policy.lifecycle.attempts import remaining_seconds

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job

OVER_TIME = (
    "it could not be reached until the maximum run time was over. If the job's code still runs there, it ends when "
    "the host is reached again"
)
"""Ends of messages after "Host algo-1 was lost while the job ran: "."""
STOPPED = "The job is stopped. Its hosts cannot be reached; its code, if it still runs, ends when they are reached."


def latest_end(job: Job, grace: float) -> float:
    """Return the time from which no code of the current attempt should run, on the wall clock."""
    began = job.counted_from if job.counted_from is not None else attempt_started_at(job)
    if began is None:
        rows = current_attempt_transitions(job)
        began = rows[-1].start_time if rows else job.created_at
    return began + remaining_seconds(job) + grace


def can_give_up(job: Job, now: float, grace: float) -> bool:
    """Return True if the verdict need not wait for the release of hosts that were unreachable for too long."""
    return job.goal in TERMINAL_GOALS or now >= latest_end(job, grace)

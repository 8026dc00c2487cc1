"""Runs that failed by our fault and begin again (SageMaker's ``RetryStrategy.MaximumRetryAttempts``).

===========================  ============================================================================
what happened                what follows
===========================  ============================================================================
``InternalServerError``      a retry, while there are any: a host was lost, or was not fit for the job
``AlgorithmError``           never a retry: the user's code failed, and would again
``ClientError``              never a retry: the wish cannot be fulfilled
a stop, its time is over     never a retry: somebody asked for the end
hosts lost before the code   no attempt: the job is placed again, whether it asked for retries or not
===========================  ============================================================================

``max_run`` covers all attempts in total. An attempt begins only after every host of the one before is known to be
gone or has said how its part ended: code of one job never runs twice at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.status import Goal, SecondaryStatus, is_final
from jupyter_smx.policy.transitions import begin_again

if TYPE_CHECKING:
    from jupyter_smx.model.job import HostEnd, Job
    from jupyter_smx.policy.verdict import Verdict

MAX_RETRIES = 30
MAX_PLACEMENTS = 3
"""How often hosts are looked for in one attempt whose code never begins."""
OURS = "InternalServerError"
NEVER_BEGAN = f"{OURS}: Its hosts were lost before the code began."


def seconds_left(job: Job) -> int:
    """Give the seconds that the attempt at hand may run."""
    return int(job.spec.max_run - sum(attempt.seconds() for attempt in job.attempts))


def is_over(job: Job, attempt: int) -> bool:
    """Say whether a run of a job is over: the job is, or another run has begun."""
    return is_final(job.state) or attempt < job.attempt


def next_attempt(job: Job, judged: Verdict, ends: tuple[HostEnd, ...], now: float) -> Job | None:
    """Give the job at the beginning of its next attempt, or None where ``judged`` is the end of it."""
    ours = judged.state is SecondaryStatus.FAILED and judged.reason.startswith(OURS)
    if not ours or job.goal is Goal.STOP or job.attempt > job.spec.retries:
        return None
    again = begin_again(job, judged.reason, ends, now)
    return again if seconds_left(again) >= 1 else None

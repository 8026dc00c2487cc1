"""Decide whether another attempt of a job starts: after a retry (``RetryStrategy``) or a spot interruption.

===========================  ============================================================================
what happened                what follows
===========================  ============================================================================
``InternalServerError``      a retry, while there are any: a host was lost, or was not fit for the job
``AlgorithmError``           never a retry: the user's code failed, and would again
``ClientError``              never a retry: the request cannot be fulfilled
a stop, its time is over     never a retry: the end was requested
an interruption              another attempt that is no retry, as often as its hosts are taken away
hosts lost before the code   no attempt: the job is placed again, whether it asked for retries or not
===========================  ============================================================================

``max_run`` covers all attempts in total, and ``max_wait`` the time between them, too. An attempt begins only after
every host of the one before is known to be gone or has reported its end: code of one job never runs twice at the
same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState, SecondaryStatus, is_final
from jupyter_smx.policy.lifecycle.outcome import Outcome
from jupyter_smx.policy.lifecycle.transitions import start_next_attempt

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import HostEnd, Job

MAX_PLACEMENTS = 3
"""Maximum number of placements in one attempt whose code never begins."""
INTERNAL_ERROR = "InternalServerError"


def not_started_reason(how: str = "") -> str:
    """Return the failure reason of a job whose code never began; ``how`` says in a sentence how its hosts were lost."""
    return f"{INTERNAL_ERROR}: Its hosts were lost before the code began. {how}".rstrip()


def remaining_seconds(job: Job) -> int:
    """Return the seconds that the current attempt may run."""
    return int(job.spec.max_run - sum(attempt.seconds() for attempt in job.attempts))


def is_over(job: Job, attempt: int) -> bool:
    """Return True if a run of a job is over: the job has ended, or another run has begun."""
    return is_final(job.state) or attempt < job.attempt


def next_attempt(job: Job, judged: Outcome, ends: tuple[HostEnd, ...], now: float) -> Job | None:
    """Return the job at the beginning of its next attempt, or None if ``judged`` is its end."""
    interrupted = job.goal is DesiredState.INTERRUPT and judged.state is SecondaryStatus.INTERRUPTED
    if job.goal in TERMINAL_GOALS or not (interrupted or _can_retry(job, judged)):
        return None
    again = start_next_attempt(job, judged.reason, ends, now, interrupted=interrupted)
    return again if remaining_seconds(again) >= 1 else None


def _can_retry(job: Job, judged: Outcome) -> bool:
    ours = judged.state is SecondaryStatus.FAILED and judged.reason.startswith(INTERNAL_ERROR)
    return ours and job.attempt - job.interruptions() <= job.spec.retries


def final_outcome(judged: Outcome) -> Outcome:
    """Return the final outcome of a job without another attempt: after an interruption, its time is used up."""
    if judged.state is not SecondaryStatus.INTERRUPTED:
        return judged
    return Outcome(state=SecondaryStatus.MAX_RUNTIME_EXCEEDED, healthy=judged.healthy)

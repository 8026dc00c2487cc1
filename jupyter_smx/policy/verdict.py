"""How a job ended: from the records of all its hosts to one final state and one failure reason.

Prefixes are SageMaker's: ``AlgorithmError`` (the user's code), ``ClientError`` (the user's wish),
``InternalServerError`` (ours). Source: FailureReason of DescribeTrainingJob, 1024 characters at most.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.job import guilty
from jupyter_smx.model.status import Goal, SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.job import HostEnd

MAX_REASON = 1_024
_NOBODY_ASKED = "InternalServerError: The hosts ended the job, and nobody had asked for that."


class Verdict(Struct, frozen=True, kw_only=True):
    """A final state, its reason, and whether the hosts can be trusted with another job."""

    state: SecondaryStatus
    reason: str = ""
    healthy: bool = True


def verdict(goal: Goal, ends: Sequence[HostEnd]) -> Verdict:
    """Judge a job whose every host has a record; any host that failed fails the job, and only a wish stops it."""
    end = guilty(ends)
    if ends and all(other.ended_well() for other in ends):
        return Verdict(state=SecondaryStatus.COMPLETED)
    if goal is Goal.STOP:
        return Verdict(state=SecondaryStatus.STOPPED, healthy=not any(other.is_ours() for other in ends))
    if end is not None and end.is_ours():
        reason = end.failure or f"Host {end.host} was lost while the job ran."
        return Verdict(state=SecondaryStatus.FAILED, reason=_cut(f"InternalServerError: {reason}"), healthy=False)
    if end is not None and not (end.ended_well() or end.was_told()):
        return Verdict(state=SecondaryStatus.FAILED, reason=_cut(_reason(end)))
    if any(other.cause == "max_runtime" for other in ends):
        return Verdict(state=SecondaryStatus.MAX_RUNTIME_EXCEEDED)
    return Verdict(state=SecondaryStatus.FAILED, reason=_NOBODY_ASKED, healthy=False)


def _reason(end: HostEnd) -> str:
    if end.cause == "refused":
        return f"ClientError: {end.failure}"
    if end.cause == "memory":
        return f"AlgorithmError: OutOfMemory: {end.failure or 'the system ended the job because memory ran out.'}"
    if end.failure:
        return f"AlgorithmError: {end.failure}"
    if end.signal is not None:
        return f"AlgorithmError: The job was ended by signal {end.signal} ({_signal_name(end.signal)})."
    return f"AlgorithmError: Exit Code: {end.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _cut(text: str) -> str:
    return text[:MAX_REASON]

"""Decide how a job ended: from the records of all its hosts to one final state and one failure reason.

Prefixes are SageMaker's: ``AlgorithmError`` (the user's code), ``ClientError`` (the user's request),
``InternalServerError`` (ours), ``CapacityError`` (no hosts could be had). Source: FailureReason of
DescribeTrainingJob, 1024 characters at most: the failure file's text, or the exit code where there is none.
"""

from __future__ import annotations

import math
import signal
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.model.records.job import failing_host
from jupyter_smx.model.status import DesiredState, SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import HostEnd, Job

MAX_REASON = 1_024
MAX_MESSAGE = 1_024
"""Bytes of an exit message."""
_NO_TEXT = "ClientError: /opt/ml/output/message of {host} is not UTF-8 text."
_SIGNALS = 128
"""A shell, and so a container, leaves with this and the number of the signal that ended a program."""
_GOAL_STATES = {DesiredState.STOP: SecondaryStatus.STOPPED, DesiredState.EXPIRE: SecondaryStatus.MAX_WAIT_TIME_EXCEEDED}
_CAUSES = {DesiredState.EXPIRE: "max_wait", DesiredState.INTERRUPT: "interrupted"}
_ROWS = {DesiredState.STOP: SecondaryStatus.STOPPING, DesiredState.INTERRUPT: SecondaryStatus.INTERRUPTED}
"""Transitions of a job that record a stop request."""
INTERRUPTION = "Its spot instances were reclaimed."
_TAKEN_AWAY = "InternalServerError: The machine of {host} was taken away: {why} Run it again, or set --retries."
_UNEXPLAINED_NOTICE = "its engine gave notice and no reason."
_UNREQUESTED_END = (
    "InternalServerError: The job was terminated without a stop request, probably because its hosts were shut "
    "down. Run it again, or set --retries."
)


class Outcome(Struct, frozen=True, kw_only=True):
    """A final state, its reason, and whether the hosts can be reused for another job.

    ``message`` is the reason in our own words, "" if that adds nothing. The state may be ``Interrupted``: that ends the
    run of a spot job, and the job only if no other run may begin.
    """

    state: SecondaryStatus
    reason: str = ""
    message: str = ""
    healthy: bool = True


def was_taken_away(goal: DesiredState, ends: Sequence[HostEnd]) -> bool:
    """Return True if an engine took a machine away while its job ran: the hosts report it, and there was no request."""
    return goal is DesiredState.RUN and any(end.cause == "interrupted" for end in ends)


def stop_cause(goal: DesiredState) -> str:
    """Return the cause that is sent to the hosts with a stop, and that their records contain."""
    return _CAUSES.get(goal, "stopped")


def effective_goal(job: Job, ends: Sequence[HostEnd]) -> DesiredState:
    """Return the desired state at the time the code exited, from records only, as the controller may have been down.

    A host that was stopped by the request ended by it, whatever the clocks show; an end may have no time.
    """
    exits = [end.exited_at for end in ends if end.exited_at is not None]
    unknown = not exits or len(exits) < len(ends)
    if unknown or job.goal is DesiredState.RUN or _are_stopped_by_request(job.goal, ends):
        return job.goal
    return DesiredState.RUN if max(exits) < _goal_set_at(job) else job.goal


def _are_stopped_by_request(goal: DesiredState, ends: Sequence[HostEnd]) -> bool:
    """Return True if the hosts were stopped because of the request, not because another host failed."""
    told = any(end.cause == stop_cause(goal) for end in ends)
    failed = any(not (end.is_stopped_by_request() or end.is_successful()) for end in ends)
    return told and not (failed and stop_cause(goal) == stop_cause(DesiredState.RUN))


def _goal_set_at(job: Job) -> float:
    if job.goal is DesiredState.EXPIRE:
        return math.inf if job.wait_until is None else job.wait_until
    # A request without its own row in the transitions came when outputs were already being uploaded.
    rows = (row.start_time for row in reversed(job.transitions) if row.status is _ROWS[job.goal])
    return next(rows, math.inf)


def job_outcome(goal: DesiredState, ends: Sequence[HostEnd]) -> Outcome:
    """Return the outcome of a job with a record of each host: a failed host fails it, only a stop request stops it."""
    end = failing_host(ends)
    if ends and all(other.is_successful() for other in ends):
        return _success_outcome(ends)
    if goal in _GOAL_STATES:
        return Outcome(state=_GOAL_STATES[goal], healthy=not any(other.is_host_failure() for other in ends))
    if goal is DesiredState.INTERRUPT and _is_interrupted(ends):
        return Outcome(state=SecondaryStatus.INTERRUPTED, reason=INTERRUPTION, healthy=False)
    return _outcome_by_hosts(end, ends)


def _outcome_by_hosts(end: HostEnd | None, ends: Sequence[HostEnd]) -> Outcome:
    if end is not None and end.is_host_failure():
        reason = end.failure or f"Host {end.host} was lost while the job ran."
        return Outcome(state=SecondaryStatus.FAILED, reason=_cut(f"InternalServerError: {reason}"), healthy=False)
    if end is not None and not (end.is_successful() or end.is_stopped_by_request()):
        return Outcome(state=SecondaryStatus.FAILED, reason=_cut(_reason(end)), message=_cut(_message(end)))
    if any(other.cause == "max_runtime" for other in ends):
        return Outcome(state=SecondaryStatus.MAX_RUNTIME_EXCEEDED)
    taken = next((other for other in ends if other.cause == "interrupted"), None)
    if taken is not None:
        reason = _TAKEN_AWAY.format(host=taken.host, why=taken.end_reason or _UNEXPLAINED_NOTICE)
        return Outcome(state=SecondaryStatus.FAILED, reason=_cut(reason), healthy=False)
    return Outcome(state=SecondaryStatus.FAILED, reason=_UNREQUESTED_END, healthy=False)


def _success_outcome(ends: Sequence[HostEnd]) -> Outcome:
    garbled = next((end.host for end in ends if end.message is None), "")
    if garbled:
        return Outcome(state=SecondaryStatus.FAILED, reason=_NO_TEXT.format(host=garbled))
    return Outcome(state=SecondaryStatus.COMPLETED)


def _is_interrupted(ends: Sequence[HostEnd]) -> bool:
    """Return True if only the interruption ended a run: neither its own failure nor its time limit."""
    return all(
        (end.is_stopped_by_request() or end.is_successful() or end.is_host_failure()) and end.cause != "max_runtime"
        for end in ends
    )


def _reason(end: HostEnd) -> str:
    """Return SageMaker's text."""
    if end.cause == "refused":
        return f"ClientError: {end.failure}"
    if end.reason:
        return f"AlgorithmError: {end.reason}"
    code = end.exit_code if end.signal is None else _SIGNALS + end.signal
    return f"AlgorithmError: Exit Code: {code}"


def exit_message(ends: Sequence[HostEnd]) -> str:
    """Join the exit messages of the hosts in their order, and cut them at SageMaker's limit."""
    whole = "".join(end.message or "" for end in ends)
    return whole.encode()[:MAX_MESSAGE].decode(errors="ignore")


def _message(end: HostEnd) -> str:
    """Return our own text."""
    if end.cause == "refused":
        return f"ClientError: {end.failure}"
    if end.cause == "memory":
        return f"AlgorithmError: OutOfMemory: {end.failure or 'the system killed the job because memory ran out.'}"
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

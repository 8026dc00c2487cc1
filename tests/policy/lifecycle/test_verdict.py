"""How a job ended: all hosts decide, any that failed fails it, and only a wish stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from draws import a_job, an_end, ends
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.records.job import RemoteException, Transition
from jupyter_smx.model.status import DesiredState, SecondaryStatus, is_final
from jupyter_smx.policy.lifecycle import attempts
from jupyter_smx.policy.lifecycle.outcome import MAX_REASON, effective_goal, exit_message, job_outcome

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import HostEnd

S = SecondaryStatus
GOOD = an_end()
BAD = an_end(host="algo-2", exit_code=3)
TOLD = an_end(cause="stopped", exit_code=None, signal=15)
ODD = an_end(cause="signal", exit_code=None, signal=6)
OUT_OF_MEMORY = an_end(host="algo-2", cause="memory", exit_code=None, signal=9, failure="3 GiB")
KEY_ERROR = RemoteException(type="KeyError", message="'x'", traceback="")
TOOLKIT = 'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "KeyError: \'x\'"\nCommand "python3 -- train.py"'
RAISED = an_end(exit_code=1, failure="KeyError: 'x'", exception=KEY_ERROR, reason=TOOLKIT)
LATE = an_end(cause="max_runtime", exit_code=None, signal=9)
OURS = an_end(cause="refused", exit_code=None, failure="host: no process could be parked.")
LOST = an_end(cause="host", exit_code=None, failure="Host algo-1 was lost while the job ran.")


@pytest.mark.parametrize(
    ("goal", "records", "state", "reason", "healthy"),
    [
        (DesiredState.RUN, [GOOD], S.COMPLETED, "", True),
        (DesiredState.RUN, [GOOD, GOOD], S.COMPLETED, "", True),
        (DesiredState.STOP, [GOOD, GOOD], S.COMPLETED, "", True),
        (DesiredState.RUN, [GOOD, BAD], S.FAILED, "AlgorithmError: Exit Code: 3", True),
        (DesiredState.RUN, [BAD, TOLD], S.FAILED, "AlgorithmError: Exit Code: 3", True),
        (DesiredState.RUN, [TOLD, BAD], S.FAILED, "AlgorithmError: Exit Code: 3", True),
        (DesiredState.RUN, [LATE], S.MAX_RUNTIME_EXCEEDED, "", True),
        (DesiredState.RUN, [LATE, TOLD], S.MAX_RUNTIME_EXCEEDED, "", True),
        (DesiredState.RUN, [LATE, GOOD], S.MAX_RUNTIME_EXCEEDED, "", True),
        (DesiredState.RUN, [LATE, BAD], S.FAILED, "AlgorithmError: Exit Code: 3", True),
        (DesiredState.STOP, [TOLD], S.STOPPED, "", True),
        (DesiredState.STOP, [TOLD, GOOD], S.STOPPED, "", True),
        (DesiredState.STOP, [BAD], S.STOPPED, "", True),
        (DesiredState.STOP, [LOST], S.STOPPED, "", False),
        (DesiredState.RUN, [LOST], S.FAILED, "InternalServerError: Host algo-1 was lost while the job ran.", False),
        (DesiredState.RUN, [OURS], S.FAILED, "InternalServerError: host: no process could be parked.", False),
        (DesiredState.STOP, [OURS], S.STOPPED, "", False),
        (DesiredState.RUN, [ODD, OUT_OF_MEMORY], S.FAILED, "AlgorithmError: Exit Code: 137", True),
        (DesiredState.RUN, [BAD, RAISED], S.FAILED, f"AlgorithmError: {TOOLKIT}", True),
        (DesiredState.RUN, [RAISED, BAD], S.FAILED, f"AlgorithmError: {TOOLKIT}", True),
        (
            DesiredState.RUN,
            [BAD, LOST],
            S.FAILED,
            "InternalServerError: Host algo-1 was lost while the job ran.",
            False,
        ),
    ],
)
def test_the_verdict(goal: DesiredState, records: list[HostEnd], state: S, reason: str, healthy: bool) -> None:
    found = job_outcome(goal, records)
    assert (found.state, found.reason, found.healthy) == (state, reason, healthy)


@pytest.mark.parametrize(
    ("end", "reason", "message"),
    [
        (an_end(exit_code=1), "AlgorithmError: Exit Code: 1", "AlgorithmError: Exit Code: 1"),
        (an_end(exit_code=139), "AlgorithmError: Exit Code: 139", "AlgorithmError: Exit Code: 139"),
        (
            an_end(exit_code=1, reason="too hot", failure="too hot"),
            "AlgorithmError: too hot",
            "AlgorithmError: too hot",
        ),
        (
            an_end(exit_code=1, failure="ValueError: no"),
            "AlgorithmError: Exit Code: 1",
            "AlgorithmError: ValueError: no",
        ),
        (RAISED, f"AlgorithmError: {TOOLKIT}", "AlgorithmError: KeyError: 'x'"),
        (
            an_end(cause="signal", exit_code=None, signal=11),
            "AlgorithmError: Exit Code: 139",
            "AlgorithmError: The job was ended by signal 11 (SIGSEGV).",
        ),
        (
            an_end(cause="signal", exit_code=None, signal=63),
            "AlgorithmError: Exit Code: 191",
            "AlgorithmError: The job was ended by signal 63 (unknown).",
        ),
        (
            an_end(cause="memory", exit_code=None, signal=9, failure="3 GiB"),
            "AlgorithmError: Exit Code: 137",
            "AlgorithmError: OutOfMemory: 3 GiB",
        ),
        (
            an_end(cause="refused", exit_code=None, failure="no such channel"),
            "ClientError: no such channel",
            "ClientError: no such channel",
        ),
        (
            an_end(exit_code=0, message=None),
            "ClientError: /opt/ml/output/message of algo-1 is not UTF-8 text.",
            "",
        ),
    ],
)
def test_the_reason_says_whose_error_it_was_in_sagemakers_words_and_the_message_in_ours(
    end: HostEnd, reason: str, message: str
) -> None:
    found = job_outcome(DesiredState.RUN, [end])
    assert (found.state, found.reason, found.message) == (S.FAILED, reason, message)


def test_a_reason_has_1024_characters_with_its_prefix() -> None:
    found = job_outcome(DesiredState.RUN, [an_end(exit_code=1, reason="y" * 1024, failure="y" * 1024)])
    assert found.reason == "AlgorithmError: " + "y" * 1008


@pytest.mark.parametrize(
    ("messages", "whole"),
    [
        (("",), ""),
        (("12 rows left out", None), "12 rows left out"),
        (("one;", "two"), "one;two"),
        (("a" * 1023, "é"), "a" * 1023),
        (("a" * 1022, "é"), "a" * 1022 + "é"),
        (("é" * 600,), "é" * 512),
    ],
)
def test_exit_messages_of_the_hosts_are_joined_and_then_cut(messages: tuple[str | None, ...], whole: str) -> None:
    assert exit_message([an_end(message=message) for message in messages]) == whole


@given(st.sampled_from(list(DesiredState)), st.lists(ends, min_size=1, max_size=4))
def test_every_combination_of_ends_gives_a_lawful_verdict(goal: DesiredState, records: list[HostEnd]) -> None:
    judged = job_outcome(goal, records)
    assert is_final(judged.state) != (judged.state is S.INTERRUPTED)
    if judged.state is S.INTERRUPTED:
        assert goal is DesiredState.INTERRUPT
        assert judged.reason
    found = attempts.final_outcome(judged)
    assert is_final(found.state)
    assert len(found.reason) <= MAX_REASON
    assert bool(found.reason) == (found.state is S.FAILED)
    completed = all(end.is_successful() and end.message is not None for end in records)
    assert (found.state is S.COMPLETED) == completed
    assert len(found.message) <= MAX_REASON
    if found.state is S.STOPPED:
        assert goal is DesiredState.STOP
    if found.state is S.MAX_WAIT_TIME_EXCEEDED:
        assert goal is DesiredState.EXPIRE
    if found.reason:
        assert found.reason.startswith(("AlgorithmError: ", "ClientError: ", "InternalServerError: "))
    if any(end.cause == "host" for end in records):
        assert not found.healthy


@given(st.sampled_from(list(DesiredState)), st.lists(ends, min_size=1, max_size=4), st.randoms())
def test_the_order_of_the_hosts_does_not_change_the_state(
    goal: DesiredState, records: list[HostEnd], chance: object
) -> None:
    mixed = [*records]
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert job_outcome(goal, mixed).state is job_outcome(goal, records).state


def test_no_record_at_all_is_no_success() -> None:
    assert job_outcome(DesiredState.RUN, []).state is S.FAILED


def test_hosts_that_stop_a_job_unasked_fail_it() -> None:
    found = job_outcome(DesiredState.RUN, [TOLD])
    assert found.state is S.FAILED
    assert found.reason.startswith("InternalServerError: ")
    assert not found.healthy


def failed_at(moment: float | None, **fields: Any) -> HostEnd:
    return an_end(**{"exit_code": 3, "exited_at": moment} | fields)


WISHED = 20.0
STOPPING = (Transition(status=S.TRAINING, start_time=1), Transition(status=S.STOPPING, start_time=WISHED))
TAKEN = (Transition(status=S.INTERRUPTED, start_time=1), Transition(status=S.INTERRUPTED, start_time=WISHED))
UPLOADING = (Transition(status=S.TRAINING, start_time=1), Transition(status=S.UPLOADING, start_time=9))


@pytest.mark.parametrize(
    ("goal", "rows", "records", "then"),
    [
        (DesiredState.RUN, (), [failed_at(9)], DesiredState.RUN),
        (DesiredState.STOP, STOPPING, [failed_at(9)], DesiredState.RUN),
        (DesiredState.STOP, STOPPING, [failed_at(WISHED)], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(9), failed_at(21)], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(21), failed_at(9)], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(9), failed_at(None)], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(9, cause="stopped")], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(9, cause="max_runtime")], DesiredState.RUN),
        (DesiredState.STOP, STOPPING, [failed_at(9), failed_at(10, cause="stopped")], DesiredState.RUN),
        (DesiredState.STOP, STOPPING, [failed_at(10, cause="stopped"), failed_at(9)], DesiredState.RUN),
        (DesiredState.STOP, STOPPING, [failed_at(9), failed_at(21, cause="stopped")], DesiredState.STOP),
        (DesiredState.STOP, STOPPING, [failed_at(9, exit_code=0), failed_at(10, cause="stopped")], DesiredState.STOP),
        (
            DesiredState.STOP,
            STOPPING,
            [failed_at(9, cause="drained"), failed_at(10, cause="stopped")],
            DesiredState.STOP,
        ),
        (DesiredState.STOP, STOPPING, [], DesiredState.STOP),
        (DesiredState.STOP, UPLOADING, [failed_at(9)], DesiredState.RUN),
        (DesiredState.INTERRUPT, TAKEN, [failed_at(9)], DesiredState.RUN),
        (DesiredState.INTERRUPT, TAKEN, [failed_at(21)], DesiredState.INTERRUPT),
        (DesiredState.INTERRUPT, TAKEN, [failed_at(9, cause="interrupted")], DesiredState.INTERRUPT),
        (DesiredState.INTERRUPT, TAKEN, [failed_at(9), failed_at(10, cause="interrupted")], DesiredState.INTERRUPT),
        (DesiredState.INTERRUPT, TAKEN, [failed_at(9), failed_at(10, cause="stopped")], DesiredState.RUN),
        (DesiredState.EXPIRE, STOPPING, [failed_at(9)], DesiredState.RUN),
        (DesiredState.EXPIRE, STOPPING, [failed_at(16)], DesiredState.EXPIRE),
        (DesiredState.EXPIRE, STOPPING, [failed_at(9, cause="max_wait")], DesiredState.EXPIRE),
    ],
)
def test_what_was_wished_when_the_code_ended(
    goal: DesiredState, rows: tuple[Transition, ...], records: list[HostEnd], then: DesiredState
) -> None:
    assert effective_goal(a_job(goal=goal, transitions=rows, wait_until=15.0), records) is then

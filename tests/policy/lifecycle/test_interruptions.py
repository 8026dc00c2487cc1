"""Managed spot in pure functions: which jobs may be interrupted, what follows, limits on waiting, and the charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from draws import NOW, a_cluster, a_job, a_spec, an_end
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jupyter_smx.model.errors import ResourceInUseError, ValidationError
from jupyter_smx.model.options.convert import check_fields
from jupyter_smx.model.records.cluster import ClusterState
from jupyter_smx.model.records.job import Attempt
from jupyter_smx.model.status import DesiredState, SecondaryStatus
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.admission import checkpoint_rules
from jupyter_smx.policy.lifecycle import attempts as retries
from jupyter_smx.policy.lifecycle import spot, transitions
from jupyter_smx.policy.lifecycle.outcome import INTERRUPTION, Outcome, job_outcome

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.records.job import HostEnd, Job
    from jupyter_smx.model.results.reports import Bill

S = SecondaryStatus
TAKEN = an_end(cause="interrupted", exit_code=None, signal=15)
POLITE = an_end(cause="interrupted", exit_code=0)
GOOD = an_end()
BAD = an_end(host="algo-2", exit_code=3)
LATE = an_end(cause="max_runtime", exit_code=None, signal=15)
LOST = an_end(cause="host", exit_code=None, failure="Host algo-1 was lost while the job ran.")
TOLD = an_end(cause="stopped", exit_code=None, signal=15)
EXPIRED = an_end(cause="max_wait", exit_code=None, signal=15)


def on_hosts(**fields: Any) -> Job:
    """Make a spot job whose code has run since ``NOW``."""
    job = a_job(spec=a_spec(spot=True, **fields), cluster="c1", lease=1)
    return transitions.advance(transitions.advance(job, S.STARTING, NOW), S.TRAINING, NOW)


def check(**wish: Any) -> None:
    check_fields(a_spec(**wish))
    spot.check(a_spec(**wish))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"max_wait": 10}, "--max-wait: 10 s without --spot"),
        ({"spot": True, "max_run": 3_600, "max_wait": 3_599}, "--max-wait: 59 min 59 s is less than --max-run, 1 h"),
        ({"kind": "process", "spot": True}, "--spot is not for processing jobs"),
        ({"kind": "process", "checkpoint": "/c"}, "--checkpoint is not for processing jobs"),
        ({"kind": "process", "max_wait": 5}, "--max-wait is not for processing jobs"),
    ],
)
def test_a_wish_that_sagemaker_would_refuse_is_refused_with_the_rule(wish: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        check(**wish)
    assert refused.value.rule
    assert refused.value.value == str(wish.get(refused.value.field, "")) or wish["kind"] == "process"


@pytest.mark.parametrize(
    "wish",
    [
        {"spot": True},
        {"spot": True, "max_run": 60, "max_wait": 60},
        {"spot": True, "keep_alive": 600},
        {"checkpoint": "/c"},
        {"kind": "process"},
    ],
)
def test_other_wishes_pass(wish: dict[str, Any]) -> None:
    check(**wish)


WORKING = a_cluster(state=ClusterState.IN_USE, available_since=None, expires_at=None)


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("goal", DesiredState)
def test_a_spot_job_can_be_interrupted_while_its_hosts_work_for_it(state: S, goal: DesiredState) -> None:
    job = a_job(spec=a_spec(spot=True), state=state, goal=goal)
    allowed = goal is DesiredState.RUN and state in (S.DOWNLOADING, S.TRAINING)
    assert spot.can_be_interrupted(job, WORKING) == allowed
    if not allowed:
        with pytest.raises(ResourceInUseError, match=state.value):
            spot.check_interruption(job, WORKING)
        return
    spot.check_interruption(job, WORKING)
    with pytest.raises(ResourceInUseError, match="is ending"):
        spot.check_interruption(job, WORKING, is_ending=True)


@pytest.mark.parametrize("cluster", [None, *(replace(WORKING, state=one) for one in ClusterState)])
def test_where_no_hosts_are_there_is_nothing_to_take_away(cluster: Cluster | None) -> None:
    job = a_job(spec=a_spec(spot=True), state=S.TRAINING)
    allowed = cluster is not None and cluster.state is ClusterState.IN_USE
    assert spot.can_be_interrupted(job, cluster) == allowed
    if not allowed:
        with pytest.raises(ResourceInUseError, match="is waiting for other hosts"):
            spot.check_interruption(job, cluster)


def test_a_job_that_was_promised_its_hosts_keeps_them() -> None:
    with pytest.raises(ValidationError, match="is not a spot job") as refused:
        spot.check_interruption(a_job(state=S.TRAINING), WORKING)
    assert "--spot" in refused.value.cure


@given(
    rate=st.floats(min_value=0, max_value=100),
    looks=st.integers(min_value=1, max_value=50),
    hours=st.floats(min_value=0, max_value=10),
)
def test_however_often_one_looks_an_hour_is_as_dangerous(rate: float, looks: int, hours: float) -> None:
    seconds = hours * 3_600
    spared_in_one, spared_in_many = _spared(rate, seconds), _spared(rate, seconds / looks) ** looks
    assert spared_in_many == pytest.approx(spared_in_one, abs=1e-6)


def _spared(rate: float, seconds: float) -> float:
    """Return, by bisection, the smallest draw without an interruption."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spot.is_interruption_due(rate, seconds, middle) else (low, middle)
    return 1 - low


def test_a_rate_of_zero_and_a_look_at_once_strike_nobody() -> None:
    assert not spot.is_interruption_due(0.0, 3_600.0, 0.0)
    assert not spot.is_interruption_due(60.0, 0.0, 0.0)
    assert spot.is_interruption_due(60.0, 60.0, 0.5)
    assert not spot.is_interruption_due(60.0, 60.0, 0.7)


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ([TAKEN], S.INTERRUPTED),
        ([POLITE], S.INTERRUPTED),  # a script that exits in order after SIGTERM is not done
        ([LOST], S.INTERRUPTED),  # a host that did not wait for the end of the notice
        ([TAKEN, GOOD], S.INTERRUPTED),
        ([GOOD, GOOD], S.COMPLETED),  # it was done before the notice
        ([BAD, TAKEN], S.FAILED),  # it had failed before the notice
        ([LATE, TAKEN], S.MAX_RUNTIME_EXCEEDED),
    ],
)
def test_an_interruption_ends_the_run_unless_the_run_had_ended_before(ends: list[HostEnd], state: S) -> None:
    judged = job_outcome(DesiredState.INTERRUPT, ends)
    assert judged.state is state
    assert (judged.reason == INTERRUPTION) == (state is S.INTERRUPTED)
    again = retries.next_attempt(on_hosts(max_run=100, retries=0), judged, tuple(ends), NOW + 10)
    assert again is None  # its desired state is another one
    again = retries.next_attempt(transitions.interrupt(on_hosts(max_run=100), NOW), judged, tuple(ends), NOW + 10)
    assert (again is not None) == (state is S.INTERRUPTED)


@pytest.mark.parametrize("ends", [[EXPIRED], [EXPIRED, GOOD], [BAD, EXPIRED], [TAKEN], [LOST]])
def test_who_waited_too_long_is_stopped_whatever_its_hosts_say(ends: list[HostEnd]) -> None:
    assert job_outcome(DesiredState.EXPIRE, ends).state is S.MAX_WAIT_TIME_EXCEEDED
    assert job_outcome(DesiredState.STOP, ends).state is S.STOPPED


def test_an_interruption_is_another_attempt_and_no_retry() -> None:
    job = on_hosts(max_run=1_000, retries=1)
    for number in range(1, 4):
        job = transitions.interrupt(job, NOW + number)
        assert (job.state, job.goal, job.status().value) == (S.INTERRUPTED, DesiredState.INTERRUPT, "InProgress")
        judged = job_outcome(job.goal, [TAKEN])
        again = retries.next_attempt(job, judged, (TAKEN,), NOW + number)
        assert again is not None
        assert (again.state, again.goal, again.cluster, again.attempt) == (S.STARTING, DesiredState.RUN, "", number + 1)
        assert again.attempts[-1].interrupted
        assert again.interruptions() == number
        assert again.max_attempts() == 2 + number
        job = transitions.advance(again, S.TRAINING, NOW + number)
    ours = Outcome(state=S.FAILED, reason="InternalServerError: lost")
    retried = retries.next_attempt(job, ours, (LOST,), NOW + 10)
    assert retried is not None
    assert not retried.attempts[-1].interrupted
    assert retries.next_attempt(transitions.advance(retried, S.TRAINING, NOW + 10), ours, (LOST,), NOW + 11) is None


def test_after_an_interruption_without_time_left_the_maximum_run_time_is_the_reason() -> None:
    job = transitions.interrupt(on_hosts(max_run=10), NOW + 9.5)
    judged = job_outcome(job.goal, [TAKEN])
    assert retries.next_attempt(job, judged, (TAKEN,), NOW + 9.5) is None
    assert retries.final_outcome(judged) == Outcome(state=S.MAX_RUNTIME_EXCEEDED, healthy=False)
    failed = job_outcome(DesiredState.RUN, [BAD])
    assert retries.final_outcome(failed) is failed


@pytest.mark.parametrize(
    ("goal", "until", "over"),
    [
        (DesiredState.RUN, NOW, True),
        (DesiredState.INTERRUPT, NOW - 1, True),
        (DesiredState.RUN, NOW + 0.1, False),
        (DesiredState.RUN, None, False),
        (DesiredState.STOP, NOW - 1, False),
        (DesiredState.EXPIRE, NOW - 1, False),
    ],
)
def test_the_wait_is_over_once(goal: DesiredState, until: float | None, over: bool) -> None:
    assert spot.is_wait_over(a_job(goal=goal, wait_until=until), NOW) == over


@pytest.mark.parametrize(
    ("place", "shared", "words"),
    [
        ("https://example.org/kept", True, "are read-only"),
        ("memory://kept/x", True, "exists only inside one process"),
        ("file:///kept", True, "as a path, not as a URL"),
        ("simplecache::s3://bucket/kept", True, "not a chain"),
        ("/kept::s3://bucket/kept", True, "not a chain"),
        ("s3://", True, "has no bucket"),
        ("kept", True, "is not a folder of this machine"),
        ("/opt/ml/checkpoints", True, "is a folder inside the hosts"),
        ("/opt//ml/../ml", True, "is a folder inside the hosts"),
        ("/dev/shm/kept", True, "is a folder inside the hosts"),  # noqa: S108 - no file is made there
        ("/kept", False, "do not share this folder"),
    ],
)
def test_a_place_that_hosts_cannot_reach_is_refused(place: str, shared: bool, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        checkpoint_rules.check(a_spec(checkpoint=place), is_shared=lambda _path: shared)
    checkpoint_rules.check(a_spec(checkpoint="/kept"), is_shared=lambda _path: True)
    checkpoint_rules.check(a_spec(), is_shared=lambda _path: False)
    for url in ("s3://bucket", "s3://bucket/kept/", "gs://bucket/kept", "abfs://x@y/kept"):
        checkpoint_rules.check(a_spec(checkpoint=url), is_shared=lambda _path: False)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"checkpoint_local_path": "/opt/ml/mine"}, "the job has no --checkpoint. Add --checkpoint"),
        ({"checkpoint": "/kept", "checkpoint_local_path": "/tmp/mine"}, "absolute and below /opt/ml"),  # noqa: S108
        ({"checkpoint": "/kept", "checkpoint_local_path": "mine"}, "absolute and below /opt/ml"),
        ({"checkpoint": "/kept", "checkpoint_local_path": "/opt/ml/../x"}, "absolute and below /opt/ml"),
        ({"checkpoint": "/kept", "checkpoint_local_path": "/opt/ml"}, "absolute and below /opt/ml"),
        ({"checkpoint": "/kept", "checkpoint_local_path": "/opt/ml/model/x"}, "/opt/ml/model is reserved"),
        ({"checkpoint": "/kept", "checkpoint_local_path": "/opt/ml/output"}, "/opt/ml/output/data is reserved"),
    ],
)
def test_a_folder_of_the_job_that_cannot_have_checkpoints_is_refused(wish: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        checkpoint_rules.check(a_spec(**wish), is_shared=lambda _path: True)
    checkpoint_rules.check(
        a_spec(checkpoint="/kept", checkpoint_local_path="/opt/ml/models/x"), is_shared=lambda _path: True
    )


def test_when_the_clock_is_set_the_wait_is_as_long_as_before() -> None:
    assert transitions.shift_job_times(a_job(wait_until=NOW), -3_600).wait_until == NOW - 3_600
    assert transitions.shift_job_times(a_job(), -3_600).wait_until is None


def an_attempt(seconds: float, *, interrupted: bool) -> Attempt:
    return Attempt(number=1, cluster="c", reason="", ended_at=NOW, ran_seconds=seconds, interrupted=interrupted)


@pytest.mark.parametrize(
    ("attempts", "last", "training", "billable", "savings"),
    [
        ((), 500.0, 500.0, 500.0, 0.0),
        (((400.0, True),), 100.0, 500.0, 100.0, 80.0),  # the example of SageMaker's API: 100 of 500
        (((400.0, False),), 100.0, 500.0, 500.0, 0.0),  # a retry ran, and is charged
        (((300.0, True), (100.0, False)), 100.0, 500.0, 200.0, 60.0),
        (((500.0, True),), None, 500.0, 0.0, 100.0),
        ((), None, 0.0, 0.0, None),
    ],
)
def test_what_is_charged_and_what_is_saved(
    attempts: tuple[tuple[float, bool], ...],
    last: float | None,
    training: float,
    billable: float,
    savings: float | None,
) -> None:
    runs = tuple(an_attempt(seconds, interrupted=interrupted) for seconds, interrupted in attempts)
    started = NOW if runs or last is not None else None
    job = a_job(attempts=runs, started_at=started, ended_at=NOW + 999, ran_seconds=last, attempt=1 + len(runs))
    found: Bill = price.bill(job, {}, NOW)
    assert (found.training_seconds, found.billable_seconds) == (training, billable)
    assert found.savings() == (None if savings is None else pytest.approx(savings))


def test_the_reason_of_a_start_says_what_became_of_the_hosts() -> None:
    assert spot.note(a_job()) == ""
    assert spot.note(a_job(attempts=(an_attempt(1, interrupted=False),))) == ""
    said = spot.note(a_job(attempts=(an_attempt(1, interrupted=True),)))
    assert said == "Attempt 1 was interrupted: its hosts were released and are never reused."

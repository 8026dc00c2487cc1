"""Which runs begin again, and that a new attempt is news, while nothing after a verdict is."""

from __future__ import annotations

from draws import NOW, a_job, a_spec, an_end
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_smx.model.status import TERMINAL_GOALS, DesiredState, SecondaryStatus, is_final
from jupyter_smx.policy.accounting import price
from jupyter_smx.policy.lifecycle import attempts, transitions
from jupyter_smx.policy.lifecycle.attempts import next_attempt
from jupyter_smx.policy.lifecycle.outcome import Outcome
from jupyter_smx.testing.simulation.invariants import is_progress

FINAL = [step for step in SecondaryStatus if is_final(step)]
OURS = "InternalServerError: Host algo-1 was lost."
REASONS = (OURS, OURS, OURS, "AlgorithmError: KeyError", "ClientError: no", "")


@settings(max_examples=400)
@given(
    state=st.sampled_from([*FINAL, *[SecondaryStatus.FAILED] * 4]),
    reason=st.sampled_from(REASONS),
    goal=st.sampled_from(DesiredState),
    attempt=st.integers(min_value=1, max_value=4),
    wished=st.integers(min_value=0, max_value=3),
    ran=st.integers(min_value=0, max_value=120),
)
def test_only_our_fault_is_retried_and_only_as_often_and_as_long_as_was_asked_for(
    state: SecondaryStatus, reason: str, goal: DesiredState, attempt: int, wished: int, ran: int
) -> None:
    job = a_job(goal=goal, attempt=attempt, spec=a_spec(retries=wished, max_run=100), cluster="c1", lease=3)
    job = transitions.advance(job, SecondaryStatus.STARTING, NOW)
    job = transitions.advance(job, SecondaryStatus.TRAINING, NOW)
    again = next_attempt(job, Outcome(state=state, reason=reason), (an_end(),), NOW + ran)
    ours = state is SecondaryStatus.FAILED and reason.startswith("InternalServerError")
    assert (again is not None) == (ours and goal not in TERMINAL_GOALS and attempt <= wished and ran < 100)
    if again is not None:
        assert (again.attempt, again.state, again.cluster, again.lease) == (
            attempt + 1,
            SecondaryStatus.STARTING,
            "",
            0,
        )
        assert again.attempts[-1].hosts == (an_end(),)
        assert attempts.remaining_seconds(again) == 100 - ran
        assert is_progress((attempt, job.state), (again.attempt, again.state))


positions = st.tuples(st.integers(min_value=1, max_value=3), st.sampled_from(SecondaryStatus))


@given(positions, positions)
def test_nothing_is_news_of_what_is_over_and_of_two_only_one_is_news_of_the_other(
    old: tuple[int, SecondaryStatus], new: tuple[int, SecondaryStatus]
) -> None:
    assert not (is_final(old[1]) and is_progress(old, new))
    waits_for_image = {old[1], new[1]} == {SecondaryStatus.PENDING, SecondaryStatus.DOWNLOADING}
    if not waits_for_image:  # a job that waited for an image waits for hosts again
        assert not (is_progress(old, new) and is_progress(new, old))
    assert not is_progress(old, old)
    if new[0] > old[0] and not is_final(old[1]):
        assert is_progress(old, new)


def test_only_the_time_of_attempts_is_billed_and_not_what_lies_between_them() -> None:
    job = transitions.advance(a_job(spec=a_spec(retries=1), cluster="c1"), SecondaryStatus.STARTING, NOW)
    job = transitions.advance(job, SecondaryStatus.TRAINING, NOW)
    again = next_attempt(job, Outcome(state=SecondaryStatus.FAILED, reason=OURS), (), NOW + 100)
    assert again is not None
    assert price.billable_seconds(again, NOW + 900) == 100
    again = transitions.advance(again, SecondaryStatus.TRAINING, NOW + 1_000)
    assert price.billable_seconds(again, NOW + 1_010) == 110
    over = transitions.advance(again, SecondaryStatus.COMPLETED, NOW + 1_060)
    assert price.billable_seconds(over, NOW + 9_000) == 160

"""Which step may follow which, and the message and flags that lists show of a job."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from jupyter_smx.model.records.job import Job, Transition
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.results.reports import Why
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus, Status, can_transition, is_final, message_of, status_of

STEPS = list(SecondaryStatus)


def test_nothing_may_become_itself() -> None:
    assert not any(can_transition(step, step) for step in STEPS)


def test_no_two_steps_may_each_follow_the_other() -> None:
    for one, other in itertools.combinations(STEPS, 2):
        assert not (can_transition(one, other) and can_transition(other, one))


def test_what_may_follow_in_two_steps_may_follow_in_one() -> None:
    for one, two, three in itertools.product(STEPS, repeat=3):
        if can_transition(one, two) and can_transition(two, three):
            assert can_transition(one, three)


def test_nothing_follows_a_verdict_and_every_step_may_get_any() -> None:
    finals = [step for step in STEPS if is_final(step)]
    assert {status_of(step) for step in finals} == {Status.COMPLETED, Status.FAILED, Status.STOPPED}
    for step in STEPS:
        for final in finals:
            assert can_transition(step, final) == (not is_final(step))
            assert not can_transition(final, step)


def test_a_job_that_ran_too_long_is_stopped_and_did_not_fail() -> None:
    assert status_of(SecondaryStatus.MAX_RUNTIME_EXCEEDED) is Status.STOPPED


def test_every_step_has_a_sentence() -> None:
    assert all(message_of(step).endswith(".") for step in STEPS)


def test_the_panel_knows_the_sentences_of_steps_that_go_as_they_should() -> None:
    known = (Path(__file__).parents[2] / "src" / "format" / "jobText.ts").read_text()
    assert [step for step in STEPS if not is_final(step) and f"'{message_of(step)}'" not in known] == []


AGAIN = "Attempt 2 of 3, after InternalServerError: Host algo-1 was lost."
QUEUED = Why(start="queued", sentence="Queued, position 1.")


@pytest.mark.parametrize(
    ("state", "said", "message"),
    [
        (SecondaryStatus.PENDING, "Waiting for an instance.", QUEUED.sentence),
        (SecondaryStatus.STARTING, AGAIN, AGAIN),
    ],
)
def test_a_job_that_came_after_another_says_that_it_begins_again_and_not_for_whom_it_waited(
    state: SecondaryStatus, said: str, message: str
) -> None:
    spec = JobSpec(kind="train", source="pass", base_name="train", after=("b" * 12,), retries=2)
    steps = (Transition(status=state, start_time=1.0, status_message=said),)
    job = Job(id="a" * 12, name="train-aaaaaa", spec=spec, state=state, transitions=steps, why=QUEUED)
    assert summary_of(job).message == message


@pytest.mark.parametrize("spot", [True, False])
def test_a_list_knows_whose_hosts_may_be_taken_away(spot: bool) -> None:
    spec = JobSpec(kind="train", source="pass", base_name="train", spot=spot)
    assert summary_of(Job(id="a" * 12, name="train-aaaaaa", spec=spec)).spot is spot

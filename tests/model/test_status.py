"""Which step may follow which: a strict order in which nothing follows a verdict."""

from __future__ import annotations

import itertools
from pathlib import Path

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

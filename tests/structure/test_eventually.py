"""How often a test looks whether something became true: often at first, then less and less."""

from __future__ import annotations

import pytest

from jupyter_smx.testing.eventually import eventually, eventually_blocking, pause


@pytest.mark.parametrize(("waited", "seconds"), [(0.0, 0.005), (0.04, 0.005), (0.2, 0.02), (0.5, 0.05), (30.0, 0.05)])
def test_the_next_look_comes_after_a_tenth_of_what_was_waited_for(waited: float, seconds: float) -> None:
    assert pause(waited) == pytest.approx(seconds)


def test_a_wait_gives_the_first_true_answer() -> None:
    answers = iter([0, None, 7])
    assert eventually_blocking(lambda: next(answers)) == 7


def test_a_wait_without_a_true_answer_names_the_last_one() -> None:
    with pytest.raises(AssertionError, match=r"the door opens; the last answer was 0"):
        eventually_blocking(lambda: 0, "the door opens", within=0.02)


async def test_a_condition_may_be_a_coroutine_function() -> None:
    answers = iter([False, True])

    async def is_so() -> bool:
        return next(answers)

    assert await eventually(is_so)

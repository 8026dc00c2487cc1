"""When a long line is called while wishes come: never before its time, and never much later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.scheduling.throttle import CROWD, PATIENCE, QUIET, next_call

moments = st.floats(0.0, 1000.0)


@given(st.integers(0, CROWD - 1), moments, moments)
def test_a_short_line_is_called_at_once(waiting: int, wished_at: float, called_at: float) -> None:
    assert next_call(waiting, wished_at, called_at) <= called_at


@given(st.integers(CROWD), moments, moments)
def test_a_long_one_waits_for_quiet_and_not_for_ever(waiting: int, wished_at: float, called_at: float) -> None:
    due = next_call(waiting, wished_at, called_at)
    assert due <= called_at + PATIENCE
    assert due in (called_at + PATIENCE, wished_at + QUIET)


@given(st.integers(CROWD), st.lists(st.floats(0.0, QUIET * 0.99), min_size=1, max_size=200))
def test_however_many_wishes_come_it_is_called_ten_times_a_second(waiting: int, pauses: list[float]) -> None:
    now = called_at = 0.0
    for pause in pauses:
        now += pause
        if now >= next_call(waiting, now, called_at):
            assert now - called_at <= PATIENCE + QUIET
            called_at = now
    assert now - called_at <= PATIENCE

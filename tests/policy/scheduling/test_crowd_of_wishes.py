"""When a long line is called while wishes come: never before its time, and never much later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.scheduling.throttle import BURST_SIZE, DEBOUNCE, MAX_DELAY, next_schedule_at

moments = st.floats(0.0, 1000.0)


@given(st.integers(0, BURST_SIZE - 1), moments, moments)
def test_a_short_line_is_called_at_once(waiting: int, wished_at: float, called_at: float) -> None:
    assert next_schedule_at(waiting, wished_at, called_at) <= called_at


@given(st.integers(BURST_SIZE), moments, moments)
def test_a_long_one_waits_for_quiet_and_not_for_ever(waiting: int, wished_at: float, called_at: float) -> None:
    due = next_schedule_at(waiting, wished_at, called_at)
    assert due <= called_at + MAX_DELAY
    assert due in (called_at + MAX_DELAY, wished_at + DEBOUNCE)


@given(st.integers(BURST_SIZE), st.lists(st.floats(0.0, DEBOUNCE * 0.99), min_size=1, max_size=200))
def test_however_many_wishes_come_it_is_called_ten_times_a_second(waiting: int, pauses: list[float]) -> None:
    now = called_at = 0.0
    for pause in pauses:
        now += pause
        if now >= next_schedule_at(waiting, now, called_at):
            assert now - called_at <= MAX_DELAY + DEBOUNCE
            called_at = now
    assert now - called_at <= MAX_DELAY

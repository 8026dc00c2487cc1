"""Whose turn it is: first come, first served, where an array counts as one who came."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.arrays import Waiter, turns

ARRAYS = ("", "a", "b", "c")

lines = st.lists(st.sampled_from(ARRAYS), max_size=40).map(
    lambda arrays: [Waiter(id=str(number), array=array) for number, array in enumerate(arrays)]
)
running = st.dictionaries(st.sampled_from(ARRAYS[1:]), st.integers(min_value=0, max_value=5)).map(Counter)


@given(lines, running)
def test_everybody_has_one_turn(waiters: list[Waiter], busy: Counter[str]) -> None:
    assert Counter(turns(waiters, busy)) == Counter(waiter.id for waiter in waiters)


@given(lines, running)
def test_single_jobs_and_the_tasks_of_one_array_keep_their_order(waiters: list[Waiter], busy: Counter[str]) -> None:
    order = turns(waiters, busy)
    for array in ARRAYS:
        mine = [waiter.id for waiter in waiters if waiter.array == array]
        assert [each for each in order if each in mine] == mine


@given(lines, running)
def test_a_job_that_came_after_an_array_waits_for_one_of_its_tasks_at_most(
    waiters: list[Waiter], busy: Counter[str]
) -> None:
    order = turns([*waiters, Waiter(id="last")], busy)
    before = [next(w.array for w in waiters if w.id == each) for each in order[: order.index("last")]]
    counts = Counter(array for array in before if array)
    assert all(count == 1 and not busy[array] for array, count in counts.items())


@given(lines, running, st.integers(min_value=1, max_value=6))
def test_an_array_never_has_more_turns_than_its_limit_leaves(
    waiters: list[Waiter], busy: Counter[str], limit: int
) -> None:
    bounded = [Waiter(id=w.id, array=w.array, max_concurrent=limit if w.array else 0) for w in waiters]
    order = turns(bounded, busy)
    for array in ARRAYS[1:]:
        mine = [waiter.id for waiter in bounded if waiter.array == array]
        assert [each for each in order if each in mine] == mine[: max(0, limit - busy[array])]


@given(lines, st.integers(min_value=1, max_value=4), st.data())
def test_nobody_starves_however_long_tasks_take(waiters: list[Waiter], slots: int, data: st.DataObject) -> None:
    """Serve the line with a few slots, ends in any order: each array always has a task running while one waits."""
    left, busy, served = [*waiters], [], []
    while left or busy:
        line = turns(left, Counter(waiter.array for waiter in busy))
        while line and len(busy) < slots:
            chosen = next(waiter for waiter in left if waiter.id == line[0])
            left.remove(chosen)
            busy.append(chosen)
            served.append(chosen.id)
            line = turns(left, Counter(waiter.array for waiter in busy))
        busy.pop(data.draw(st.integers(min_value=0, max_value=len(busy) - 1)))
        singles = [waiter.id for waiter in waiters if not waiter.array]
        assert [each for each in served if each in singles] == singles[: len([e for e in served if e in singles])]
    assert sorted(served) == sorted(waiter.id for waiter in waiters)


def test_two_arrays_share_the_slots() -> None:
    waiters = [Waiter(id=f"{array}{number}", array=array) for array in "ab" for number in range(3)]
    assert turns(waiters, Counter(a=2)) == ["b0", "b1", "a0", "b2", "a1", "a2"]

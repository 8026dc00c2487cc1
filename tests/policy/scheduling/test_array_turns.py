"""Whose turn it is: first come, first served, where an array counts as one; and when a long queue is scheduled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.policy.scheduling.fair_queue import (
    BURST_SIZE,
    DEBOUNCE,
    EXACT_POSITIONS,
    MAX_DELAY,
    FairQueue,
    QueueEntry,
    next_schedule_at,
    outdated_positions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ARRAYS = ("", "a", "b", "c")

lines = st.lists(st.sampled_from(ARRAYS), max_size=40).map(
    lambda arrays: [QueueEntry(number, str(number), array) for number, array in enumerate(arrays)]
)
running = st.dictionaries(st.sampled_from(ARRAYS[1:]), st.integers(min_value=0, max_value=5)).map(Counter)


def queue_of(waiters: Iterable[QueueEntry], busy: Mapping[str, int]) -> FairQueue:
    queue = FairQueue()
    for waiter in waiters:
        queue.add(waiter)
    for array, count in busy.items():
        queue.add_running(array, count)
    return queue


def turns(waiters: Iterable[QueueEntry], busy: Mapping[str, int]) -> list[str]:
    return [*queue_of(waiters, busy).ordered_ids()]


def counted_anew(waiters: Iterable[QueueEntry], busy: Mapping[str, int]) -> list[str]:
    """Say in the plainest way whose turn it is: a task stands behind as many turns as tasks run or wait before it."""
    taken, rows = Counter(busy), []
    for waiter in sorted(waiters):
        turn = taken[waiter.array] if waiter.array else 0
        taken[waiter.array] += 1
        if not waiter.max_concurrent or turn < waiter.max_concurrent:
            rows.append((turn, waiter.age, waiter.id))
    return [job for _, _, job in sorted(rows)]


@given(lines, running)
def test_everybody_has_one_turn(waiters: list[QueueEntry], busy: Counter[str]) -> None:
    assert Counter(turns(waiters, busy)) == Counter(waiter.id for waiter in waiters)


@given(lines, running)
def test_single_jobs_and_the_tasks_of_one_array_keep_their_order(waiters: list[QueueEntry], busy: Counter[str]) -> None:
    order = turns(waiters, busy)
    for array in ARRAYS:
        mine = [waiter.id for waiter in waiters if waiter.array == array]
        assert [each for each in order if each in mine] == mine


@given(lines, running)
def test_a_job_that_came_after_an_array_waits_for_one_of_its_tasks_at_most(
    waiters: list[QueueEntry], busy: Counter[str]
) -> None:
    order = turns([*waiters, QueueEntry(len(waiters), "last")], busy)
    before = [next(w.array for w in waiters if w.id == each) for each in order[: order.index("last")]]
    counts = Counter(array for array in before if array)
    assert all(count == 1 and not busy[array] for array, count in counts.items())


@given(lines, running, st.integers(min_value=1, max_value=6))
def test_an_array_never_has_more_turns_than_its_limit_leaves(
    waiters: list[QueueEntry], busy: Counter[str], limit: int
) -> None:
    bounded = [w._replace(max_concurrent=limit if w.array else 0) for w in waiters]
    order = turns(bounded, busy)
    for array in ARRAYS[1:]:
        mine = [waiter.id for waiter in bounded if waiter.array == array]
        assert [each for each in order if each in mine] == mine[: max(0, limit - busy[array])]


@given(lines, st.integers(min_value=1, max_value=4), st.data())
def test_nobody_starves_however_long_tasks_take(waiters: list[QueueEntry], slots: int, data: st.DataObject) -> None:
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
    waiters = [QueueEntry(age, f"{array}{age % 3}", array) for age, array in enumerate("aaabbb")]
    assert turns(waiters, Counter(a=2)) == ["b0", "b1", "a0", "b2", "a1", "a2"]


def test_a_queue_is_sorted_once_until_it_changes() -> None:
    queue = queue_of([QueueEntry(age, str(age), "a") for age in range(3)], Counter())
    order = queue.ordered_ids()
    assert queue.ordered_ids() is order
    queue.add(QueueEntry(3, "3"))
    assert queue.ordered_ids() == ["0", "3", "1", "2"]


@given(lines, running, st.integers(min_value=0, max_value=6), st.data())
def test_who_comes_and_goes_leaves_the_turns_of_the_others_as_if_counted_anew(
    waiters: list[QueueEntry], busy: Counter[str], limit: int, data: st.DataObject
) -> None:
    waiters = [w._replace(max_concurrent=limit if w.array else 0) for w in waiters]
    queue, present = queue_of(waiters, busy), [*waiters]
    for waiter in data.draw(st.lists(st.sampled_from(waiters), unique=True) if waiters else st.just([])):
        queue.remove(waiter)
        present.remove(waiter)
        if waiter.array:
            queue.add_running(waiter.array, 1)
            busy[waiter.array] += 1
        assert queue.ordered_ids() == counted_anew(present, busy)
        if data.draw(st.booleans()):
            returned = data.draw(st.sampled_from([w for w in waiters if w not in present]))
            queue.add(returned)
            present.append(returned)
    expected = counted_anew(present, busy)
    assert queue.ordered_ids() == expected
    assert len(queue) == len(expected)
    first = queue.peek()
    assert ("" if first is None else first[1].id) == next(iter(expected), "")
    places = {waiter.id: queue.count_ahead(waiter) for waiter in present}
    assert places == {w.id: expected.index(w.id) if w.id in expected else None for w in present}
    for array in ARRAYS:
        new = QueueEntry(len(waiters), "new", array, limit if array else 0)
        line = counted_anew([*present, new], busy)
        assert queue.count_ahead(new) == (line.index("new") if "new" in line else None)


def test_a_queue_forgets_arrays_of_which_nobody_waits_or_runs() -> None:
    queue, waiter = FairQueue(), QueueEntry(0, "x", "a")
    queue.add(waiter)
    queue.remove(waiter)
    queue.add_running("a", 1)
    queue.add_running("a", -1)
    queue.count_ahead(waiter)
    assert vars(queue) == vars(FairQueue())


def test_a_position_near_the_front_is_reported_whenever_it_changes_and_one_far_back_seldom() -> None:
    queue = [str(number) for number in range(1, 101)]
    reported = {job: int(job) for job in queue}
    assert outdated_positions(queue, reported, 100) == []
    assert outdated_positions(queue[1:], reported, 100) == queue[1 : EXACT_POSITIONS + 1]
    assert outdated_positions(queue[50:], reported, 100) == queue[50:]


def test_a_position_that_was_never_reported_is_one_to_report_and_there_is_a_limit() -> None:
    assert outdated_positions(["a", "b", "c"], {"b": 2}, 100) == ["a", "c"]
    assert outdated_positions(["a", "b", "c"], {}, 2) == ["a", "b"]


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

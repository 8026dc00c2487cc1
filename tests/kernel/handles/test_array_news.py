"""What a ``JobArray`` knows while answers overtake each other and tasks are deleted under it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.client.client import ArrayDetail
from jupyter_smx.kernel.display.array_card import array_card_of
from jupyter_smx.kernel.handles.job_array import JobArray
from jupyter_smx.model.records.job import Job, JobSummary
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.array import ArrayCounts, ArrayTask, task_id
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

if TYPE_CHECKING:
    from collections.abc import Callable

ID = "ab" * 16
SIZE = 3
STEPS = (SecondaryStatus.PENDING, SecondaryStatus.TRAINING, SecondaryStatus.COMPLETED)


def task(index: int, state: SecondaryStatus) -> JobSummary:
    own = ArrayTask(id=ID, name="grid-ababab", index=index, size=SIZE)
    spec = JobSpec(kind="train", source="pass", base_name="grid", array=own)
    return summary_of(Job(id=task_id(ID, index), name=f"grid-ababab-{index}", spec=spec, state=state))


def detail(*states: SecondaryStatus | None) -> ArrayDetail:
    """Give the answer about tasks at these steps; None was deleted."""
    return ArrayDetail(
        id=ID,
        name="grid-ababab",
        base_name="grid",
        kind="train",
        size=SIZE,
        counts=ArrayCounts(pending=SIZE),
        tasks=tuple(task(index, state) for index, state in enumerate(states) if state is not None),
    )


def made(ask: Callable[[], ArrayDetail]) -> JobArray:
    """Give an array of which nothing is known yet, and whose controller answers what ``ask`` gives."""
    client: Any = SimpleNamespace(array=lambda _ref: ask())
    return JobArray(detail(), client, lambda record: record, lambda _: None)


def test_an_answer_that_is_older_than_a_verdict_does_not_take_it_back() -> None:
    def overtaken() -> ArrayDetail:
        array.update_tasks([task(0, SecondaryStatus.COMPLETED)])
        return detail(SecondaryStatus.TRAINING, SecondaryStatus.TRAINING, SecondaryStatus.PENDING)

    array = made(overtaken)
    array.refresh()
    assert array.latest_summary.counts == ArrayCounts(completed=1, running=1, pending=1)
    assert array.tasks[0].secondary_status is SecondaryStatus.COMPLETED


def test_whoever_looks_while_an_answer_is_taken_in_sees_no_task_vanish() -> None:
    class Slow:
        seen: ClassVar[list[int]] = []

        @property
        def tasks(self) -> tuple[JobSummary, ...]:
            self.seen.append(len(array.tasks))
            return detail(*STEPS).tasks

    array = made(Slow)  # type: ignore[arg-type]
    array.update_tasks(detail(*STEPS).tasks)
    array.refresh()
    assert set(Slow.seen) == {SIZE}


def test_a_card_is_final_when_all_tasks_that_are_left_have_their_verdict() -> None:
    array = made(detail)
    array.update(detail(SecondaryStatus.COMPLETED, None, SecondaryStatus.TRAINING))
    assert array.latest_summary.counts == ArrayCounts(completed=1, running=1)
    assert not array_card_of(array.latest_summary, array.tasks, 0.0).is_final
    array.update_tasks([task(2, SecondaryStatus.FAILED)])
    assert array.ended()
    assert array_card_of(array.latest_summary, array.tasks, 0.0).is_final


@given(st.lists(st.integers(0, SIZE - 1), max_size=12), st.data())
def test_answers_in_any_order_never_take_a_verdict_back_nor_bring_a_deleted_task_again(
    steps: list[int], data: st.DataObject
) -> None:
    moments = [[0] * SIZE]
    for index in steps:
        after = list(moments[-1])
        after[index] = min(after[index] + 1, len(STEPS))
        moments.append(after)
    array, over, gone = made(detail), set[int](), set[int]()
    for moment in data.draw(st.permutations(moments)):
        states = [*STEPS, None]
        answer = detail(*(states[step] for step in moment))
        if data.draw(st.booleans()):
            array.update(answer)
            gone |= {index for index, step in enumerate(moment) if states[step] is None}
        else:
            array.update_tasks(answer.tasks)
        over |= {index for index, step in enumerate(moment) if states[step] is SecondaryStatus.COMPLETED}
        known = {each.array.index: each.secondary_status for each in array.tasks if each.array}
        assert not gone & known.keys()
        assert all(known[index] is SecondaryStatus.COMPLETED for index in over - gone)
        assert array.ended() == (over | gone == set(range(SIZE)))
        assert array.latest_summary.counts.remaining_count() == SIZE - len(over | gone)

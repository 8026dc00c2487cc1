"""Arrays: where their tasks are, and what lists say of them."""

from __future__ import annotations

from collections import Counter

import pytest

from jupyter_smx.model.spec.array import Array, ArrayCounts, array_summary, task_status
from jupyter_smx.model.status import SecondaryStatus, Status, is_final

STEPS = list(SecondaryStatus)


@pytest.mark.parametrize("step", STEPS)
def test_a_task_is_pending_then_running_until_its_verdict(step: SecondaryStatus) -> None:
    counts = ArrayCounts(**Counter([task_status(step)]))
    assert (counts.finished_count(), counts.remaining_count()) == ((1, 0) if is_final(step) else (0, 1))
    assert (counts.pending == 1) == (step is SecondaryStatus.PENDING)


def test_a_time_limit_stops_a_task_and_one_that_failed_fails_its_array() -> None:
    over = ArrayCounts(
        **Counter([task_status(SecondaryStatus.MAX_RUNTIME_EXCEEDED), task_status(SecondaryStatus.COMPLETED)])
    )
    assert (over.stopped, over.status()) == (1, Status.STOPPED)
    assert ArrayCounts(stopped=1, failed=1, completed=5).status() is Status.FAILED


def test_a_summary_says_everything_of_the_record_but_the_digest() -> None:
    array = Array(
        id="a" * 12,
        name="train-aaaaaa",
        base_name="train",
        kind="process",
        size=3,
        digest="d",
        title="sweep lr",
        max_concurrent=2,
        engine="local",
        instances="local × 1",
        created_at=5.0,
    )
    summary = array_summary(array, ArrayCounts(pending=3), None)
    assert summary.counts == ArrayCounts(pending=3)
    told = set(array.__struct_fields__) - {"digest"}
    assert {name: getattr(summary, name) for name in told} == {name: getattr(array, name) for name in told}

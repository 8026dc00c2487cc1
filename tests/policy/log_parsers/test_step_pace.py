"""The duration of a step, computed from the counts in a log; lines that arrived together are ignored."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.model.results.progress import StepPace
from jupyter_smx.policy.log_parsers.observations import AnnouncedTotals
from jupyter_smx.policy.log_parsers.reader import Reader
from jupyter_smx.policy.log_parsers.step_rate import Pace, is_step, pace_of, update_pace


def followed(counts: list[tuple[float, float]]) -> StepPace | None:
    pace = Pace()
    for count, at in counts:
        pace = update_pace(pace, count, at)
    return pace_of(pace)


def test_steps_take_the_time_between_their_counts() -> None:
    assert followed([(10, 100.0), (20, 101.0), (40, 103.0)]) == StepPace(steps=40, seconds=0.1)


def test_what_was_there_at_once_is_no_time_and_its_last_count_is_the_first() -> None:
    # 50 lines were read in one piece: the times of the first 49 are unknown.
    assert followed([(float(count), 100.0) for count in range(1, 51)]) is None
    assert followed([*((float(count), 100.0) for count in range(1, 51)), (60, 101.0)]) == StepPace(
        steps=60, seconds=0.1
    )


def test_a_count_that_begins_anew_in_each_epoch_has_no_step_between_two_epochs() -> None:
    found = followed([(1, 0.0), (11, 1.0), (1, 60.0), (11, 61.0)])
    assert found == StepPace(steps=11, seconds=0.1)


def test_a_job_that_goes_on_from_a_checkpoint_counts_only_what_it_did() -> None:
    assert followed([(9_000, 0.0), (9_010, 2.0)]) == StepPace(steps=9_010, seconds=0.2)


@pytest.mark.parametrize("counts", [[], [(5, 1.0)], [(5, 1.0), (5, 9.0)], [(5, 1.0), (4, 2.0), (3, 3.0)]])
def test_nothing_is_said_before_two_counts_that_grow(counts: list[tuple[float, float]]) -> None:
    assert followed(counts) is None


@given(st.lists(st.integers(1, 50), min_size=2, max_size=30), st.floats(0.01, 100))
def test_steps_of_equal_length_have_that_length(grown: list[int], length: float) -> None:
    counts = [float(sum(grown[: number + 1])) for number in range(len(grown))]
    found = followed([(count, 1000 + count * length) for count in counts])
    assert all(one < other for one, other in pairwise(counts))
    assert found is not None
    assert found.seconds == pytest.approx(length, rel=1e-6)


@pytest.mark.parametrize("name", ["step", "Step", "global_step", "global-step", "Steps", "global step"])
def test_a_metric_of_such_a_name_counts_steps(name: str) -> None:
    assert is_step(name)


@pytest.mark.parametrize("name", ["steps_per_second", "loss", "epoch", "footstep"])
def test_a_metric_of_another_name_does_not(name: str) -> None:
    assert not is_step(name)


@pytest.mark.parametrize(
    ("first", "second", "metrics"),
    [
        (b"step 10 loss=0.5\n", b"step 20 loss=0.4\n", {}),
        (b"[Step 10/500] loss: 0.5\n", b"[Step 20/500] loss: 0.4\n", {}),
        (b"global_step=10 loss=0.5\n", b"global_step=20 loss=0.4\n", {}),
        (b"at batch 3, done 10\n", b"at batch 7, done 20\n", {"step": "done ([0-9]+)"}),
        (b"epoch 1/3 step 10/40\n", b"epoch 1/3 step 20/40\n", {}),
    ],
)
def test_a_log_tells_its_steps(first: bytes, second: bytes, metrics: dict[str, str]) -> None:
    reader = Reader(metrics, AnnouncedTotals(), lambda: 0.0)
    reader.feed(first, 100.0)
    assert pace_of(reader.state.pace) is None
    reader.feed(second, 105.0)
    assert pace_of(reader.state.pace) == StepPace(steps=20, seconds=0.5)


def test_epochs_and_batches_are_no_steps() -> None:
    reader = Reader({}, AnnouncedTotals(), lambda: 0.0)
    reader.feed(b"epoch 1/3 loss=0.5\n", 100.0)
    reader.feed(b"epoch 2/3 loss=0.4\nbatch 3/9\n", 105.0)
    assert reader.state.pace == Pace()

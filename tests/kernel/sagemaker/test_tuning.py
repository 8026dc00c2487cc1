"""Which arrays are tuning jobs of SageMaker, and by which rule the others are not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_smx.kernel.sagemaker.tuning import (
    LONGEST_NAME,
    MAX_PARALLEL_JOBS,
    MAX_RANGES,
    MAX_VALUES,
    TuningJob,
    tuning_job,
)
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

METRICS = {"score": "score=(.*)", "loss": "loss=(.*)"}


def spec(**fields: Any) -> JobSpec:
    asked: Any = {"kind": "train", "source": "pass", "base_name": "fit", "metrics": METRICS} | fields
    return JobSpec(**asked)


def grid(**values: int) -> list[dict[str, str]]:
    """Span a grid of so many values of each name."""
    points = itertools.product(*(map(str, range(count)) for count in values.values()))
    return [dict(zip(values, point, strict=True)) for point in points]


def test_a_full_grid_is_a_tuning_job_of_as_many_jobs_as_there_are_combinations() -> None:
    assert tuning_job(spec(), grid(depth=2, leaves=3)) == TuningJob(
        metric="score",
        objective="Maximize",
        ranges={"depth": ("0", "1"), "leaves": ("0", "1", "2")},
        max_jobs=6,
        parallel=6,
        base_name="fit",
    )


@pytest.mark.parametrize(("at_once", "parallel"), [(0, MAX_PARALLEL_JOBS), (3, 3), (99, MAX_PARALLEL_JOBS)])
def test_as_many_run_at_once_as_here_and_as_the_usual_quota_has(at_once: int, parallel: int) -> None:
    found = tuning_job(spec(), grid(a=5, b=5), at_once)
    assert isinstance(found, TuningJob)
    assert found.parallel == parallel


@pytest.mark.parametrize(
    ("metric", "objective"),
    [
        *((name, "Minimize") for name in ("val_loss", "RMSE", "test-mae2", "error")),
        *((name, "Maximize") for name in ("acc", "terror", "lossless_ratio", "early_msec")),
    ],
)
def test_less_is_better_of_some_metrics(metric: str, objective: str) -> None:
    found = tuning_job(spec(metrics={metric: "(.*)"}), grid(a=2))
    assert isinstance(found, TuningJob)
    assert (found.metric, found.objective) == (metric, objective)


@pytest.mark.parametrize(
    ("fields", "points", "says"),
    [
        ({"kind": "process"}, grid(a=2), "these are processing jobs"),
        ({}, [{}, {}], "differ in their variables"),
        ({"metrics": {}}, grid(a=2), "No metric was defined"),
        ({}, grid(a=2, b=2)[1:], "3 tasks are not each combination of their values once (2 × 2 = 4)"),
        ({}, [*grid(a=2), {"a": "1"}], "3 tasks are not each combination of their values once (2)"),
        ({}, [{"a": "1"}, {"b": "2"}], "2 tasks are not each combination of their values once (1 × 1 = 1)"),
        ({}, [{"a": "0", "b": "0"}] * 2 + [{"a": "1", "b": "1"}] * 2, "(2 × 2 = 4)"),
        ({}, grid(a=MAX_VALUES + 1), "`a` has 31 values, and a category has 30 at most"),
        ({}, grid(**{f"p{n}": 1 for n in range(MAX_RANGES + 1)}), "varies 31 hyperparameters"),
        ({}, [{"a": "x" * 257}], "longer than 256 characters"),
        ({}, grid(a=30, b=26), "780 tasks, and a tuning job makes 750 jobs"),
        ({"metrics": {f"m{n}": "" for n in range(21)}}, grid(a=2), "21 metrics, and a tuning job 20"),
        ({"hyperparameters": {f"h{n}": "" for n in range(95)}}, grid(a=2), "96 hyperparameters"),
        ({"environment": {f"A{n}": "" for n in range(49)}}, grid(a=2), "49 variables"),
        ({"instance_groups": (InstanceGroup(name="a"), InstanceGroup(name="b"))}, grid(a=2), "instance groups"),
        ({"checkpoint": "/kept"}, grid(a=2), "keeps checkpoints"),
    ],
)
def test_what_is_no_tuning_job_is_told_by_its_rule(
    fields: dict[str, Any], points: list[dict[str, str]], says: str
) -> None:
    found = tuning_job(spec(**fields), points)
    assert isinstance(found, str)
    assert says in found


def test_what_is_just_within_the_limits_is_one() -> None:
    assert isinstance(tuning_job(spec(), grid(a=MAX_VALUES)), TuningJob)
    assert isinstance(tuning_job(spec(), grid(**{f"p{n}": 1 for n in range(MAX_RANGES)})), TuningJob)
    assert isinstance(tuning_job(spec(), [{"a": "x" * 256}]), TuningJob)
    assert isinstance(tuning_job(spec(), grid(a=30, b=25)), TuningJob)
    assert isinstance(tuning_job(spec(metrics={f"m{n}": "" for n in range(20)}), grid(a=2)), TuningJob)
    assert isinstance(tuning_job(spec(hyperparameters={f"h{n}": "" for n in range(94)}), grid(a=2)), TuningJob)


@given(st.from_regex(r"[a-zA-Z0-9](-?[a-zA-Z0-9]){0,27}", fullmatch=True))
def test_names_leave_room_for_what_the_sdk_puts_behind_them(name: str) -> None:
    found = tuning_job(spec(base_name=name), grid(a=2))
    assert isinstance(found, TuningJob)
    assert len(f"{found.base_name}-261122-2249") <= LONGEST_NAME
    assert name.startswith(found.base_name)
    assert not found.base_name.endswith("-")


@given(st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), min_size=1), st.data())
def test_only_a_whole_grid_without_repetition_is_one(sides: dict[str, int], data: st.DataObject) -> None:
    points = grid(**sides)
    shuffled = data.draw(st.permutations(points))
    found = tuning_job(spec(), shuffled)
    assert isinstance(found, TuningJob)
    assert {name: len(values) for name, values in found.ranges.items()} == sides
    one = data.draw(st.sampled_from(points))
    assert isinstance(tuning_job(spec(), [*shuffled, one]), str)
    # What is left may be a smaller grid, as of 1 × 3.
    rest = [point for point in points if point != one]
    left = tuning_job(spec(), rest)
    if isinstance(left, TuningJob):
        assert left.max_jobs == len(rest) == len(set(itertools.product(*left.ranges.values())))

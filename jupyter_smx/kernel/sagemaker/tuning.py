"""Decide if an array is a tuning job of SageMaker's strategy Grid, and why not. Pure.

Grid alone does what an array does: it tries each combination once. It takes categories, which are text, and the number
of its jobs is the product of their counts. Random and Bayesian choose other points. Hyperband ends jobs that
fall behind and requires early stopping Off, since it has its own; an array ends no task early, so it is never
chosen, and early stopping is Off here, too.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from jupyter_smx.kernel.sagemaker.api_limits import MAX_HYPERPARAMETERS, SDK_HYPERPARAMETERS
from jupyter_smx.kernel.sagemaker.estimator_call import is_heterogeneous

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jupyter_smx.model.spec.job_spec import JobSpec

LONGEST_NAME = 32
_SUFFIX = len("-yymmdd-hhmm")
"""Suffix that the SDK adds to the name of a tuning job, after cutting the name to make room."""
MAX_JOBS = 750
MAX_METRICS = 20
MAX_RANGES = 30
MAX_VALUES = 30
LONGEST_VALUE = 256
MAX_VARIABLES = 48
"""In the environment of a tuning job's jobs, which is fewer than of others."""
MAX_PARALLEL_JOBS = 10
"""Jobs of one tuning job that run at a time by SageMaker's usual quota."""
_MINIMIZE_WORDS = {
    "loss",
    "losses",
    "logloss",
    "err",
    "error",
    "errors",
    "mse",
    "mae",
    "mape",
    "rmse",
    "perplexity",
    "nll",
}
"""Words in names of metrics for which a lower value is better."""


class TuningJob(Struct, frozen=True, kw_only=True):
    """A tuning job: the metric that it looks at, its categories in order, how many jobs it makes and runs at once."""

    metric: str
    objective: str
    """``Minimize`` or ``Maximize``, by the metric's name; the strategy Grid only ranks by it."""
    ranges: dict[str, tuple[str, ...]]
    max_jobs: int
    parallel: int
    base_name: str
    """Base name from which the SDK makes a valid name: 32 characters with the time after it."""


def tuning_job(spec: JobSpec, points: Sequence[Mapping[str, str]], at_once: int = 0) -> TuningJob | str:
    """Return the tuning job of an array, or why it is none, as a sentence.

    ``points`` are the hyperparameters of each task in which tasks differ; ``at_once`` of them may run at a time (0: any
    number).
    """
    ranges = _ranges(points)
    reason = next(_rejections(spec, points, ranges), "")
    if reason:
        return reason
    metric = next(iter(spec.metrics))
    return TuningJob(
        metric=metric,
        objective="Minimize" if _MINIMIZE_WORDS.intersection(re.split("[^a-z]", metric.lower())) else "Maximize",
        ranges=ranges,
        max_jobs=len(points),
        parallel=min(at_once or len(points), len(points), MAX_PARALLEL_JOBS),
        base_name=(spec.base_name or spec.kind)[: LONGEST_NAME - _SUFFIX].rstrip("-"),
    )


def _ranges(points: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the values of each hyperparameter in the order of the tasks."""
    names = dict.fromkeys(name for point in points for name in point)
    return {name: tuple(dict.fromkeys(point[name] for point in points if name in point)) for name in names}


def _rejections(
    spec: JobSpec, points: Sequence[Mapping[str, str]], ranges: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    if spec.kind != "train":
        yield "SageMaker tunes training jobs, and these are processing jobs."
    if not ranges:
        yield "Its tasks differ in their variables, and a tuning job's in hyperparameters."
    if not spec.metrics:
        yield "No metric was defined (`--metric NAME=REGEX`), but a tuning job needs one."
    yield from _grid_rejections(points, ranges)
    yield from _range_rejections(ranges)
    yield from _limit_rejections(spec, len(points), ranges)


def _grid_rejections(points: Sequence[Mapping[str, str]], ranges: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    counts = [len(values) for values in ranges.values()]
    product = math.prod(counts)
    distinct = {tuple(sorted(point.items())) for point in points}
    if len(points) != product or len(distinct) != product:
        sides = " × ".join(map(str, counts))
        grid = f"{sides} = {product}" if len(counts) > 1 else str(product)
        yield (
            f"Its {len(points)} tasks are not each combination of their values once ({grid}), and the strategy Grid "
            "has as many jobs as there are combinations."
        )


def _range_rejections(ranges: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if len(ranges) > MAX_RANGES:
        yield f"It varies {len(ranges)} hyperparameters, and a tuning job {MAX_RANGES} at most."
    for name, values in ranges.items():
        if len(values) > MAX_VALUES:
            yield f"`{name}` has {len(values)} values, and a category has {MAX_VALUES} at most."
        if max(map(len, (name, *values))) > LONGEST_VALUE:
            yield f"A value of `{name[:LONGEST_VALUE]}`, or its name, is longer than {LONGEST_VALUE} characters."


def _limit_rejections(spec: JobSpec, jobs: int, ranges: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if jobs > MAX_JOBS:
        yield f"It has {jobs} tasks, and a tuning job makes {MAX_JOBS} jobs at most."
    if len(spec.metrics) > MAX_METRICS:
        yield f"It has {len(spec.metrics)} metrics, and a tuning job {MAX_METRICS} at most."
    count = len({*spec.sdk2_hyperparameters(), *ranges})
    if count > MAX_HYPERPARAMETERS - SDK_HYPERPARAMETERS:
        yield (
            f"Its jobs have {count} hyperparameters; those of a tuning job have {MAX_HYPERPARAMETERS} at most, and the "
            f"SDK adds {SDK_HYPERPARAMETERS} of its own."
        )
    if len(spec.environment) > MAX_VARIABLES:
        yield f"It has {len(spec.environment)} variables in its environment, and jobs of a tuning job {MAX_VARIABLES}."
    if is_heterogeneous(spec):
        yield "It has instance groups, and the hosts of a tuning job have none."
    if spec.checkpoint:
        yield "It keeps checkpoints, and a tuning job has one place for those of all its jobs."

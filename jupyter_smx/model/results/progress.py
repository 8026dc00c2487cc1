"""The progress of a job, its expected end, and the metrics that it printed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jupyter_smx.model.results.usage import Usage

MAX_METRICS = 40
"""Names of metrics of one host; as many as SageMaker's ``MetricDefinitions`` may have."""


class Progress(Struct, frozen=True, kw_only=True):
    """Progress from a job's own progress bars and epoch lines.

    ``fraction`` goes from 0 to 1 over all announced work, None while no end is announced. ``text`` is the printed
    count, as ``epoch 3/10 · 12/94``. ``remaining_seconds`` is the bar's own estimate at ``at`` (seconds since the
    epoch), None without one.
    """

    fraction: float | None = None
    text: str = ""
    remaining_seconds: float | None = None
    at: float = 0.0


class Expectation(Struct, frozen=True, kw_only=True):
    """Expected end of a job: seconds from its submission, with the range of the estimate.

    ``low`` and ``high`` are the quartiles of the earlier runs, or equal to ``seconds`` if the estimate is the job's own
    progress. ``runs`` counts the earlier runs.
    """

    seconds: float
    low: float
    high: float
    basis: Literal["progress", "history"]
    runs: int = 0


class MetricValue(Struct, frozen=True, kw_only=True):
    """The last value of one metric on one host; those with a definition are SageMaker's ``FinalMetricDataList``.

    ``value`` is None where the job printed nan or an infinity. ``step`` counts epochs, rounds or steps, whatever the
    job counts; None when it counts nothing. ``at`` is seconds since the epoch.
    """

    name: str
    value: float | None
    at: float
    step: float | None = None
    host: str = ""


class StepPace(Struct, frozen=True, kw_only=True):
    """Pace of a job's leader: the highest count of steps, and the average seconds of a step."""

    steps: float
    seconds: float


class JobTelemetry(Struct, frozen=True, kw_only=True):
    """Live values of a job beside its record: progress, expected begin and end, metrics and usage.

    ``start_at`` is when a waiting job is expected to begin, seconds since the epoch.
    """

    progress: Progress | None = None
    expectation: Expectation | None = None
    start_at: float | None = None
    metrics: tuple[MetricValue, ...] = ()
    pace: StepPace | None = None
    usage: Usage | None = None


class MetricSeries(Struct, frozen=True, kw_only=True):
    """The values of one metric on one host, oldest first, in columns of equal length.

    ``count`` values were printed. When they became too many, every ``stride``-th was kept, and the newest always.
    """

    name: str
    host: str
    steps: tuple[float | None, ...] = ()
    at: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()
    count: int = 0
    stride: int = 1


class JobMetrics(Struct, frozen=True, kw_only=True):
    """Values in the logs of one run of a job: progress, metrics by host, and sentences about unreadable parts.

    It is the ``attempt``-th run of ``attempts`` so far.
    """

    job: str
    progress: Progress | None = None
    series: tuple[MetricSeries, ...] = ()
    notes: tuple[str, ...] = ()
    attempt: int = 1
    attempts: int = 1
    is_final: bool = False
    """Nothing more will come of this run."""

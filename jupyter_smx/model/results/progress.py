"""The progress of a job, its expected end, and the metrics that it printed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jupyter_smx.model.results.usage import Usage

MAX_METRICS = 40
"""Names of metrics of one host; as many as SageMaker's ``MetricDefinitions`` may have."""


class Progress(Struct, frozen=True, kw_only=True):
    """What a job's own progress bars and epoch lines say.

    ``fraction`` goes from 0 to 1 over everything that the job announced, None while it announced no end. ``text`` is
    what was counted, as ``epoch 3/10 · 12/94``. ``remaining_seconds`` is what the bar itself promised at ``at``
    (seconds since the epoch), None where it does not.
    """

    fraction: float | None = None
    text: str = ""
    remaining_seconds: float | None = None
    at: float = 0.0


class Expectation(Struct, frozen=True, kw_only=True):
    """When a job is expected to end: seconds from its submission, and the spread that is behind the number.

    ``low`` and ``high`` are the quartiles of the earlier runs, or equal to ``seconds`` where the job's own progress
    says it. ``runs`` counts the earlier runs that were looked at.
    """

    seconds: float
    low: float
    high: float
    basis: Literal["progress", "history"]
    runs: int = 0


class MetricValue(Struct, frozen=True, kw_only=True):
    """The last value of one metric on one host, as SageMaker's ``FinalMetricDataList`` has it.

    ``value`` is None where the job printed nan or an infinity. ``step`` counts epochs, rounds or steps, whatever the
    job counts; None when it counts nothing. ``at`` is seconds since the epoch.
    """

    name: str
    value: float | None
    at: float
    step: float | None = None
    host: str = ""


class StepPace(Struct, frozen=True, kw_only=True):
    """How fast a job's leader counts its steps: the highest count, and the seconds that one step took on average."""

    steps: float
    seconds: float


class JobTelemetry(Struct, frozen=True, kw_only=True):
    """What is known of a live job beside its record: how far it is, when it begins and ends, what it measures and uses.

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

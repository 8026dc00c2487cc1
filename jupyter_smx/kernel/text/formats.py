"""Format facts of a job as short text: progress, metrics, and why a start was warm or cold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.model.status import is_final
from jupyter_smx.model.text import format_duration, format_estimate, format_number, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_smx.model.records.job import Job, JobSummary
    from jupyter_smx.model.results.usage import Usage

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
"""Colours and movements, titles and links, and the short ones (ECMA-48)."""

_CONTROL = dict.fromkeys([code for code in (*range(32), *range(127, 160)) if code not in (9, 13)])

_ISOLATION = {
    "namespace": "Linux namespaces",
    "variables": "environment variables only",
    "links": "environment variables, and links in the /opt/ml of the machine",
}
"""Isolation of a host in words; other kinds are words already."""

_CELLS = 8

_BARS = "▁▂▃▄▅▆▇█"

_FULL = 100.0
"""Percent of a core that is fully used."""

_MAX_METRICS = 3
"""Metrics in one line."""


def readable(line: str) -> str:
    """Return the visible text of a line in a terminal: without escapes, control characters and overwritten parts."""
    plain = _ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2]
    return plain.translate(_CONTROL)


def progress_bar(job: JobSummary) -> str:
    """Draw the progress of a running job in a few cells, e.g. ``▮▮▮▮▮▮▯▯``; empty if it is unknown or the job ended."""
    fraction = job.progress.fraction if job.progress is not None else None
    if fraction is None or is_final(job.secondary_status):
        return ""
    full = min(_CELLS, int(fraction * _CELLS + 0.5))
    return "▮" * full + "▯" * (_CELLS - full)


def format_progress(job: JobSummary) -> str:
    """Format the progress of a job, as ``epoch 7/10, 74 %``; with a verdict, only if it did not complete."""
    progress = job.progress
    if progress is None or job.status.value == "Completed":
        return ""
    # 100 * 0.29 is a hair less than 29.
    percent = "" if progress.fraction is None else f"{int(100 * progress.fraction + 1e-9)} %"
    # Avoid "45 %, 45 %".
    return ", ".join(
        part for part in (progress.text, percent) if part and not (part == percent and percent in progress.text)
    )


def format_metrics(job: JobSummary, most: int = _MAX_METRICS) -> str:
    """Format the newest values, as ``loss 0.2134, val_acc 0.962``; nan if the job printed no number."""
    values = list(job.metrics.items())
    shown = ", ".join(f"{name} {'nan' if value is None else format_number(value)}" for name, value in values[:most])
    return shown if len(values) <= most else f"{shown}, …"


def format_usage(usage: Usage | None, *, prefix: str = "", trend: Sequence[float] = ()) -> str:
    """Format what a job uses of its hosts, as ``CPU ▁▅█ 186 % · memory 1.2 GiB``; "" without a measurement.

    ``trend`` has CPU figures in percent, of which the last one is the newest; ``prefix`` stands before each part.
    """
    if usage is None:
        return ""
    bars = f"{sparkline(trend)} " if len(trend) > 1 else ""
    parts = (
        "" if usage.cpu_percent is None else f"{prefix}CPU {bars}{usage.cpu_percent:.0f} %",
        "" if usage.memory_bytes is None else f"{prefix}memory {format_size(usage.memory_bytes)}",
        "" if usage.gpu_percent is None else f"{prefix}GPU {usage.gpu_percent:.0f} %",
    )
    return " · ".join(filter(None, parts))


def sparkline(values: Sequence[float]) -> str:
    """Draw figures in percent as bars, the highest at 100 % or at the highest figure: ``▁▅█``."""
    top = max([_FULL, *values])
    return "".join(_BARS[round(max(0.0, value) / top * (len(_BARS) - 1))] for value in values)


def format_expected_duration(job: JobSummary) -> str:
    """Format the expected duration of a running job, as ``of ~3 min``; empty if unknown."""
    if job.expectation is None or is_final(job.secondary_status):
        return ""
    return f"of ~{format_estimate(job.expectation.seconds)}"


def format_queue_position(job: JobSummary, now: float) -> str:
    """Format the queue position of a waiting job and its wait, as ``queue position 2, ~40 s``; empty for others."""
    if not job.queue_position:
        return ""
    words = f"queue position {job.queue_position}"
    if job.expected_start_at is None or job.expected_start_at <= now:
        return words
    return f"{words}, ~{format_estimate(job.expected_start_at - now)}"


def format_start_reason(job: Job) -> str:
    """Format why a job started warm or cold, with each pool that did not fit, and the duration of the start."""
    why = job.why
    if why is None:
        return f"{job.name} has no hosts yet."
    lines = [why.sentence]
    lines += [
        f"  pool {found.pool}: {found.field} is {found.found}, the job needs {found.wanted}"
        for found in why.differences
    ]
    if (seconds := start_seconds(job)) is not None:
        lines.append(f"  Time to first line: {format_duration(seconds)}")
    if why.isolation:
        lines.append(f"  Isolation: {_ISOLATION.get(why.isolation, why.isolation)}")
    lines += [f"  {note}" for note in why.notes]
    return "\n".join(lines)


def start_seconds(job: Job) -> float | None:
    """Return the seconds from submission to the first line of user code; None before that."""
    begin = job.spec.submitted_at or job.created_at
    first_line = job.timings.get("first_line")
    return None if first_line is None or not begin else max(0.0, first_line - begin)

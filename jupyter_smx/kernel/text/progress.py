"""How far a job is, when it will end and what it measures, in a few words for cards and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model import duration
from jupyter_smx.model.status import is_final
from jupyter_smx.model.text import format_number

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import JobSummary

_CELLS = 8
_MAX_METRICS = 3
"""Metrics in one line."""


def progress_bar(job: JobSummary) -> str:
    """Draw how far a running job is in a few cells, as ``▮▮▮▮▮▮▯▯``; empty where nobody knows or it has ended."""
    fraction = job.progress.fraction if job.progress is not None else None
    if fraction is None or is_final(job.secondary_status):
        return ""
    full = min(_CELLS, int(fraction * _CELLS + 0.5))
    return "▮" * full + "▯" * (_CELLS - full)


def format_progress(job: JobSummary) -> str:
    """Say how far a job is, as ``epoch 7/10, 74 %``; of one that has its verdict, only if it did not complete."""
    progress = job.progress
    if progress is None or job.status.value == "Completed":
        return ""
    # 100 * 0.29 is a hair less than 29.
    percent = "" if progress.fraction is None else f"{int(100 * progress.fraction + 1e-9)} %"
    # "45 %, 45 %" says it twice.
    return ", ".join(
        part for part in (progress.text, percent) if part and not (part == percent and percent in progress.text)
    )


def format_metrics(job: JobSummary, most: int = _MAX_METRICS) -> str:
    """Say the newest values, as ``loss 0.2134, val_acc 0.962``; nan where the job printed no number."""
    values = list(job.metrics.items())
    shown = ", ".join(f"{name} {'nan' if value is None else format_number(value)}" for name, value in values[:most])
    return shown if len(values) <= most else f"{shown}, …"


def format_expected_duration(job: JobSummary) -> str:
    """Say how long a running job is expected to take in all, as ``of ~3 min``; empty where nothing is known."""
    if job.expectation is None or is_final(job.secondary_status):
        return ""
    return f"of ~{duration.format_estimate(job.expectation.seconds)}"


def format_queue_position(job: JobSummary, now: float) -> str:
    """Say where a waiting job stands and for how long, as ``number 2 in the queue, ~40 s``; empty for others."""
    if not job.queue_position:
        return ""
    words = f"number {job.queue_position} in the queue"
    if job.expected_start_at is None or job.expected_start_at <= now:
        return words
    return f"{words}, ~{duration.format_estimate(job.expected_start_at - now)}"

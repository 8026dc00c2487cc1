"""Warm or cold, and why, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model import duration

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import Job


def format_start_reason(job: Job) -> str:
    """Say why a job started warm or cold, each pool that was passed over, and how long the start took."""
    why = job.why
    if why is None:
        return f"{job.name} has not been placed yet."
    lines = [why.sentence]
    lines += [
        f"  pool {found.pool}: {found.field} is {found.found}, wanted is {found.wanted}" for found in why.differences
    ]
    if (seconds := start_seconds(job)) is not None:
        lines.append(f"  from the cell to the first line: {duration.format_duration(seconds)}")
    if why.isolation:
        lines.append(f"  isolation: {why.isolation}")
    lines += [f"  {note}" for note in why.notes]
    return "\n".join(lines)


def start_seconds(job: Job) -> float | None:
    """Give the seconds from submission to the first line of user code; None while it has not run."""
    begin = job.spec.submitted_at or job.created_at
    first_line = job.timings.get("first_line")
    return None if first_line is None or not begin else max(0.0, first_line - begin)
